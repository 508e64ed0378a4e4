//===- Moments.cpp - Variances from products ------------------------------===//
//
// EM of mixtures, Gaussian statistics and normalisations by matrix products
// compute a variance as the mean of squares minus the square of the mean, each
// of which is a dot with the same weights. Both are large where the variance is
// small, and no format with fewer digits than F32's keeps the difference.
//
//===----------------------------------------------------------------------===//

#include "Moments.h"

#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/DataMovement.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Idioms/Rows.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

// Averages are a few factors away from their dots.
constexpr unsigned kMaxSteps = 16;

static Value skipMoves(Value value) {
  return lookThrough(value, Move::Layout | Move::Broadcast | Move::Barrier |
                                Move::Cast);
}

static bool isOuter(Operation *op) {
  auto dot = dyn_cast<DotGeneralOp>(op);
  return dot &&
         dot.getDotDimensionNumbers().getLhsContractingDimensions().empty();
}

static Operation *findDot(Value value, unsigned steps = 0);

/// Returns the dots of both factors of a product of two values that are linear
/// in a dot; null if `value` is no such product.
static std::pair<Operation *, Operation *> findFactors(Operation *op,
                                                       unsigned steps) {
  if (!isa<MulOp>(op) && !isOuter(op))
    return {};
  return {findDot(op->getOperand(0), steps), findDot(op->getOperand(1), steps)};
}

/// Returns the operand that `op` scales, shifts or negates, if it is one.
static Value getScaled(Operation *op, unsigned steps) {
  if (isa<NegOp, DivOp>(op))
    return op->getOperand(0);
  if (isa<AddOp, SubtractOp, MaxOp>(op))
    for (unsigned i : {0, 1})
      if (getSplat(op->getOperand(1 - i)))
        return op->getOperand(i);
  if (isa<MulOp>(op)) {
    auto [lhs, rhs] = findFactors(op, steps);
    if (!lhs != !rhs)
      return op->getOperand(lhs ? 0 : 1);
  }
  return {};
}

/// Returns the dot that `value` is linear in: scaled, shifted by a constant or
/// moved. Null if there is none.
static Operation *findDot(Value value, unsigned steps) {
  for (; value && steps < kMaxSteps; ++steps) {
    Operation *op = skipMoves(value).getDefiningOp();
    if (!op || (isContraction(op) && !isOuter(op)))
      return op;
    value = getScaled(op, steps + 1);
  }
  return nullptr;
}

/// Returns the two dots whose product `value` is, up to factors and constants.
static std::pair<Operation *, Operation *> findProduct(Value value) {
  for (unsigned steps = 0; value && steps < kMaxSteps; ++steps) {
    Operation *op = skipMoves(value).getDefiningOp();
    if (!op)
      break;
    auto factors = findFactors(op, steps + 1);
    if (factors.first && factors.second)
      return factors;
    value = getScaled(op, steps + 1);
  }
  return {};
}

/// Returns true if the dot reads the operands of another one, or products of
/// them.
static bool readsOperandsOf(Operation *dot, Operation *other) {
  llvm::SmallDenseSet<Value> read;
  for (Value operand : dot->getOperands().take_front(2)) {
    Value source = skipMoves(operand);
    read.insert(source);
    Operation *op = source.getDefiningOp();
    if (op && (isa<MulOp>(op) || isOuter(op)))
      for (Value factor : op->getOperands())
        read.insert(skipMoves(factor));
  }
  return llvm::all_of(other->getOperands().take_front(2), [&](Value operand) {
    return read.contains(skipMoves(operand));
  });
}

llvm::DenseSet<Operation *> scalify::findMoments(FunctionOpInterface func) {
  llvm::DenseSet<Operation *> moments;
  func.getFunctionBody().walk([&](SubtractOp difference) {
    Operation *square = findDot(difference.getLhs());
    auto [lhs, rhs] = findProduct(difference.getRhs());
    if (square && lhs && rhs && square != lhs && square != rhs &&
        readsOperandsOf(square, lhs) && readsOperandsOf(square, rhs))
      moments.insert_range(ArrayRef<Operation *>{square, lhs, rhs});
  });
  // Products of data that a mean of products reads, as einsum writes them.
  for (Operation *dot : llvm::to_vector(moments))
    for (Value operand : dot->getOperands().take_front(2))
      if (Operation *op = skipMoves(operand).getDefiningOp(); op && isOuter(op))
        moments.insert(op);
  return moments;
}
