//===- SavedFormats.cpp - Cast forward values that the backward reads -----===//
//
// Operands of dots are narrow already. Other forward values that backward ops
// read are cast once, and the backward dequantizes them. Statistics (results of
// reductions, and values computed from these alone) stay wide, and so do values
// that are compared: a maximum must equal itself.
//
//===----------------------------------------------------------------------===//

#include "Cancellation.h"
#include "StorageFormats.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Precision/ValueOrigin.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

namespace {
class SavedValues {
public:
  SavedValues(func::FuncOp func, Caster &caster, Type format)
      : block(func.getBody().front()), caster(caster), format(format) {}
  void run();

private:
  bool isStatistic(Operation &op) const;
  bool mayCast(Value value) const;
  void castUses(Value value);

  Block &block;
  Caster &caster;
  Type format;
  DenseSet<Value> statistics;
};
} // namespace

/// True if a broadcast repeats elements: then its operand is kept instead.
static bool repeats(Operation *op) {
  auto broadcast = dyn_cast<stablehlo::BroadcastInDimOp>(op);
  return broadcast &&
         broadcast.getOperand().getType().getNumElements() <
             cast<ShapedType>(broadcast.getType()).getNumElements();
}

/// True also for ops without floating-point operands: tables, masks, one-hots.
bool SavedValues::isStatistic(Operation &op) const {
  if (isa<stablehlo::ReduceOp>(op))
    return true;
  return llvm::all_of(op.getOperands(), [&](Value operand) {
    return !isFloat(operand) || statistics.contains(operand) ||
           cast<ShapedType>(operand.getType()).getRank() == 0;
  });
}

/// Weights stay as they are, also if ranks gather them from their shares, so
/// that the step has the same bits.
bool SavedValues::mayCast(Value value) const {
  Operation *root = getDotOperandRoot(value).getDefiningOp();
  if (!root || !root->hasAttr(kScaleAttr) || statistics.contains(value) ||
      isa<DequantizeOp>(root) || repeats(root) || getWeight(value) ||
      root->getNumResults() != 1 || getPhase(root) != Phase::Forward ||
      !getElementTypeOrSelf(value.getType()).isF32())
    return false;
  return llvm::none_of(value.getUsers(), [](Operation *user) {
    return isa<stablehlo::CompareOp>(user);
  });
}

/// True if the use starts a carry that the loop changes, as weights and moments
/// in a loop over steps. A cast would round what the loop computes with, not
/// only a saved value.
static bool initialisesVariantCarry(OpOperand &use) {
  auto loop = dyn_cast<stablehlo::WhileOp>(use.getOwner());
  return loop && !stablehlo::isInvariantCarry(loop, use.getOperandNumber());
}

void SavedValues::castUses(Value value) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses()) {
    Operation *user = block.findAncestorOpInBlock(*use.getOwner());
    if (user == use.getOwner() && getPhase(user) != Phase::Forward &&
        !isa<QuantizeOp, stablehlo::OptimizationBarrierOp>(user) &&
        !initialisesVariantCarry(use) &&
        // A dot that stays wide reads wide data.
        !isContraction(user) && !user->hasTrait<OpTrait::IsTerminator>())
      uses.push_back(&use);
  }
  if (uses.empty() || !mayCast(value))
    return;
  if (llvm::any_of(uses, [](OpOperand *use) { return isCancelled(*use); })) {
    value.getDefiningOp()->emitRemark(
        "saved value stays wide: a sum of the backward cancels most of it");
    return;
  }
  if (DecisionAttr decision = caster.getReasonToStayWide(value, format)) {
    value.getDefiningOp()->emitRemark("saved value stays wide: ")
        << decision.describe();
    return;
  }
  Operation *root = getDotOperandRoot(value).getDefiningOp();
  int64_t exponent = root->getAttrOfType<IntegerAttr>(kScaleAttr).getInt();
  ScaleHint hint{
      caster.makeConstant(std::ldexp(1.0f, static_cast<int>(exponent))),
      root->getAttrOfType<StringAttr>(kRuleAttr)};
  Value wide = caster.cast(value, hint, format, &block);
  for (OpOperand *use : uses)
    use->set(wide);
}

void SavedValues::run() {
  SmallVector<Value> values;
  for (Operation &op : block.without_terminator()) {
    if (getPhase(&op) != Phase::Forward)
      continue;
    bool isStatistics = isStatistic(op);
    for (Value result : op.getResults()) {
      if (!isFloat(result))
        continue;
      if (isStatistics)
        statistics.insert(result);
      else
        values.push_back(result);
    }
  }
  for (Value value : values)
    castUses(value);
}

/// True if there is a dot outside of the forward. Without one, results with the
/// types of arguments may be those of an evaluation, and a step without dots
/// keeps little.
static bool hasDotOutsideForward(func::FuncOp func) {
  return func
      .walk([](Operation *op) {
        return isContraction(op) && getPhase(op) != Phase::Forward
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

void scalify::castSavedValues(func::FuncOp func, RecipeAttr recipe,
                              Caster &caster) {
  Type format = recipe.getStorage().saved;
  if (format && hasDotOutsideForward(func))
    SavedValues(func, caster, format).run();
}
