//===- VanishingRows.cpp - Norms of rows that may vanish ------------------===//

#include "VanishingRows.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Idioms/Idioms.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// Stands for a missing eps: the smallest mean square that F32 has.
static constexpr double kMinMeanSquare = std::numeric_limits<float>::min();

static Value lookThroughMoves(Value value) {
  while (true) {
    value = lookThrough(value, Move::Layout | Move::Cast | Move::Barrier |
                                   Move::Slice);
    // A scan stacks its rows with one more dimension.
    auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
    if (!broadcast ||
        countElements(value) != countElements(broadcast.getOperand()))
      return value;
    value = broadcast.getOperand();
  }
}

/// True for a product of two activations of both signs: its rows are sums of
/// few terms where a mask or a decay leaves few. A positive factor, as of a
/// softmax, leaves no row small.
static bool mayVanish(Operation *dot, const ScaleAnalysis &facts) {
  auto product = dyn_cast<DotGeneralOp>(dot);
  return product &&
         !product.getDotDimensionNumbers().getLhsBatchingDimensions().empty() &&
         llvm::all_of(dot->getOperands(), [&](Value operand) {
           return facts.lookup(operand).sign == Sign::Any &&
                  !isParameter(lookThroughMoves(operand));
         });
}

/// Looks through what multiplies rows, the mean that a norm subtracts, the rows
/// that a scan stacks, and sums, as of a chunk's rows and those of the chunks
/// before, of which the first has none.
static bool mayHaveVanishingRows(Value value, const ScaleAnalysis &facts,
                                 unsigned depth = 0) {
  constexpr unsigned maxDepth = 12;
  Value root = lookThroughMoves(value);
  Operation *op = root.getDefiningOp();
  if (!op || depth == maxDepth)
    return false;
  auto recurse = [&](Value operand) {
    return mayHaveVanishingRows(operand, facts, depth + 1);
  };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<MulOp>(
          [&](auto) { return llvm::any_of(op->getOperands(), recurse); })
      .Case<DivOp, NegOp>([&](auto) { return recurse(op->getOperand(0)); })
      .Case<SubtractOp>([&](auto) {
        return recurse(op->getOperand(0)) &&
               (idioms::isMeanOf(op->getOperand(1), op->getOperand(0)) ||
                recurse(op->getOperand(1)));
      })
      .Case<AddOp>(
          [&](auto) { return llvm::all_of(op->getOperands(), recurse); })
      .Case<WhileOp>([&](WhileOp loop) {
        Value row =
            getStackedUpdate(loop, cast<OpResult>(root).getResultNumber());
        return row && recurse(row);
      })
      .Default([&](auto) { return mayVanish(op, facts); });
}

DenseMap<Value, double> scalify::findVanishingRows(FunctionOpInterface func,
                                                   const ScaleAnalysis &facts) {
  DenseMap<Value, double> found;
  func.getFunctionBody().walk([&](Operation *op) {
    if (getPhase(op) != Phase::Forward)
      return;
    std::optional<idioms::Norm> norm =
        idioms::matchNorm(op, MatchFor::Estimate);
    if (!norm || !mayHaveVanishingRows(norm->input, facts))
      return;
    double rms = facts.lookup(norm->input).rms;
    double eps = std::max(norm->eps, kMinMeanSquare);
    found[norm->meanSquare] = std::max(1.0, norm->width * rms * rms / eps);
  });
  return found;
}
