//===- VanishingRows.cpp - Norms of rows that may vanish ------------------===//

#include "VanishingRows.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Idioms/Idioms.h"

#include "llvm/ADT/DenseSet.h"
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

namespace {
/// The values whose rows may vanish, in the order of the ops that define them.
class VanishingValues {
public:
  explicit VanishingValues(const ScaleAnalysis &facts) : facts(facts) {}

  bool contains(Value value) const {
    return values.contains(lookThroughMoves(value));
  }

  /// Adds the results of an op. Rows keep vanishing after ops that multiply
  /// them, the mean that a norm subtracts, the stack of a scan, and sums, as of
  /// a chunk's rows and those of the chunks before, of which the first has
  /// none.
  void visit(Operation *op);

private:
  bool isVanishing(Operation *op) const;

  const ScaleAnalysis &facts;
  DenseSet<Value> values;
};
} // namespace

bool VanishingValues::isVanishing(Operation *op) const {
  auto isKnown = [&](Value operand) { return contains(operand); };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<MulOp>(
          [&](auto) { return llvm::any_of(op->getOperands(), isKnown); })
      .Case<DivOp, NegOp>([&](auto) { return contains(op->getOperand(0)); })
      .Case<SubtractOp>([&](auto) {
        return contains(op->getOperand(0)) &&
               (idioms::isMeanOf(op->getOperand(1), op->getOperand(0)) ||
                contains(op->getOperand(1)));
      })
      .Case<AddOp>(
          [&](auto) { return llvm::all_of(op->getOperands(), isKnown); })
      .Default([&](auto) { return mayVanish(op, facts); });
}

void VanishingValues::visit(Operation *op) {
  if (auto loop = dyn_cast<WhileOp>(op)) {
    for (OpResult result : loop->getResults())
      if (Value row = getStackedUpdate(loop, result.getResultNumber());
          row && contains(row))
        values.insert(result);
  } else if (op->getNumResults() == 1 && isVanishing(op)) {
    values.insert(op->getResult(0));
  }
}

DenseMap<Value, double> scalify::findVanishingRows(FunctionOpInterface func,
                                                   const ScaleAnalysis &facts) {
  DenseMap<Value, double> found;
  VanishingValues vanishing(facts);
  // A loop is visited after the ops of its body.
  func.getFunctionBody().walk([&](Operation *op) {
    vanishing.visit(op);
    if (getPhase(op) != Phase::Forward)
      return;
    std::optional<idioms::Norm> norm =
        idioms::matchNorm(op, MatchFor::Estimate);
    if (!norm || !vanishing.contains(norm->input))
      return;
    double rms = facts.lookup(norm->input).rms;
    double eps = std::max(norm->eps, kMinMeanSquare);
    found[norm->meanSquare] = std::max(1.0, norm->width * rms * rms / eps);
  });
  return found;
}
