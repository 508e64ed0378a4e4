//===- ApplyRescales.cpp - Run-time scales flow to the casts --------------===//
//
// After folding every value is a true value, and a scale is knowledge that only
// the casts use. So a measured scale needs no second form of the graph: it is a
// correction to the scale that the rules predicted, a power of two on rank 0,
// and it flows by the same families. Through a product corrections multiply,
// through a sum the larger scale wins, at a non-linear op they end. Only what a
// dot's scalify.set_scale reads is built.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Passes.h"

#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Scaling/ScaleAnalysis.h"
#include "scalify/Scaling/ScaleArithmetic.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/DenseSet.h"

#include <cmath>

namespace scalify {
#define GEN_PASS_DEF_APPLYRESCALES
#include "scalify/Scaling/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {

/// The corrections of one block: of the function, or of a loop's body.
class CorrectionFlow {
public:
  CorrectionFlow(Block &block, const ScaleAnalysis &analysis)
      : block(block), analysis(analysis), scales(block),
        builder(block.getParentOp()->getContext()) {}
  void run();

private:
  void findMoved();
  void findNeeded();
  void visit(Operation &op);
  void visitHint(SetScaleOp hint);
  void visitPoint(RescalePointOp point);
  void visitSetScaling(SetScalingOp op);
  void visitDataScale(DataScaleOp op);
  void visitAligned(Operation &op);
  void visitFactors(Operation &op, bool quotient);

  /// The run-time scale over the predicted one; null where they are equal.
  Value correction(Value value) { return corrections.lookup(value); }
  Value correctionOrOne(Value value) {
    Value found = correction(value);
    return found ? found : scales.one();
  }
  int64_t predicted(Value value);
  /// The scale of a value as the step will know it.
  Value currentScale(Value value);

  Block &block;
  const ScaleAnalysis &analysis;
  ScaleArithmetic scales;
  OpBuilder builder;
  DenseSet<Value> moved, needed;
  DenseMap<Value, Value> corrections;
};

} // namespace

static bool isFullFloatTensor(Value value) {
  return isFloatTensor(value.getType()) &&
         cast<ShapedType>(value.getType()).getRank() > 0;
}

static bool isRunTimePin(Operation *op) {
  auto pin = dyn_cast<SetScalingOp>(op);
  return pin && !getConstantScale(pin.getScale());
}

static ScaleFamily familyOf(Operation &op) {
  auto rule = dyn_cast<ScaleRuleInterface>(op);
  return rule ? rule.getScaleFamily() : ScaleFamily::True;
}

/// The operands of a linear op whose corrections its results inherit.
static SmallVector<Value> getCarriers(Operation &op) {
  SmallVector<Value> carriers;
  switch (familyOf(op)) {
  case ScaleFamily::PassEach:
  case ScaleFamily::Align:
  case ScaleFamily::Reduce:
    llvm::copy_if(op.getOperands(), std::back_inserter(carriers),
                  isFullFloatTensor);
    return carriers;
  case ScaleFamily::Pass:
    return {op.getOperand(0)};
  case ScaleFamily::Product:
  case ScaleFamily::Quotient:
    return {op.getOperand(0), op.getOperand(1)};
  default:
    return {};
  }
}

/// What propagation wrote on the op. The facts of the folded graph may be
/// others: hints stand between the parts of what a composite rule matches.
int64_t CorrectionFlow::predicted(Value value) {
  if (!isFullFloatTensor(value))
    return 0;
  if (auto result = dyn_cast<OpResult>(value))
    if (auto scale = result.getOwner()->getAttrOfType<IntegerAttr>(kScaleAttr);
        scale && result.getResultNumber() == 0)
      return scale.getInt();
  return analysis.lookup(value).scaleExponent();
}

Value CorrectionFlow::currentScale(Value value) {
  return scales.product(builder, value.getLoc(),
                        scales.powerOfTwo(predicted(value)),
                        correctionOrOne(value));
}

/// What lies downstream of a measured scale, without another one between.
void CorrectionFlow::findMoved() {
  for (Operation &op : block) {
    bool isSource = isa<RescalePointOp>(op) || isRunTimePin(&op);
    if (isSource || llvm::any_of(getCarriers(op), [&](Value value) {
          return moved.contains(value);
        }))
      moved.insert_range(op.getResults());
  }
}

/// Of these, what a hint reads, directly or through others.
void CorrectionFlow::findNeeded() {
  for (Operation &op : llvm::reverse(block)) {
    bool reads = isa<SetScaleOp, DataScaleOp>(op) ||
                 llvm::any_of(op.getResults(), [&](Value result) {
                   return needed.contains(result);
                 });
    if (!reads)
      continue;
    // A measured scale starts from the one before it.
    if (isa<DataScaleOp, RescalePointOp>(op))
      needed.insert(op.getOperand(0));
    for (Value value : getCarriers(op))
      if (moved.contains(value))
        needed.insert(value);
  }
}

void CorrectionFlow::visitHint(SetScaleOp hint) {
  Value change = correction(hint.getValue());
  if (!change)
    return;
  builder.setInsertionPoint(hint);
  hint.getScaleMutable().assign(
      scales.product(builder, hint.getLoc(), hint.getScale(), change));
  StringRef rule = hint.getRule().value_or("");
  hint.setRule((rule + " (predicted), times what the step measures").str());
}

void CorrectionFlow::visitPoint(RescalePointOp point) {
  builder.setInsertionPointAfter(point);
  Value value = point.getValue(), result = point.getResult();
  if (needed.contains(result)) {
    Value base = currentScale(value);
    auto scale = MeasuredScaleOp::create(builder, point.getLoc(),
                                         base.getType(), point.getStatistic(),
                                         value, base, point.getSample());
    if (Attribute phase = point->getAttr(kPhaseAttr))
      scale->setAttr(kPhaseAttr, phase);
    corrections[result] = scales.quotient(builder, point.getLoc(), scale,
                                          scales.powerOfTwo(predicted(value)));
  }
}

void CorrectionFlow::visitSetScaling(SetScalingOp op) {
  if (!isRunTimePin(op) || !needed.contains(op.getResult()))
    return;
  builder.setInsertionPointAfter(op);
  Value scale = RoundScaleOp::create(builder, op.getLoc(),
                                     op.getScale().getType(), op.getScale());
  corrections[op.getResult()] =
      scales.quotient(builder, op.getLoc(), scale,
                      scales.powerOfTwo(predicted(op.getResult())));
}

void CorrectionFlow::visitDataScale(DataScaleOp op) {
  builder.setInsertionPoint(op);
  Value scale = currentScale(op.getValue());
  op.getScale().replaceAllUsesWith(scale);
  if (op.getData().use_empty())
    return;
  auto type = cast<RankedTensorType>(op.getData().getType());
  Value divisor = stablehlo::BroadcastInDimOp::create(
      builder, op.getLoc(), type.clone(builder.getF32Type()), scale,
      ArrayRef<int64_t>{});
  if (!type.getElementType().isF32())
    divisor = stablehlo::ConvertOp::create(builder, op.getLoc(), divisor,
                                           type.getElementType());
  op.getData().replaceAllUsesWith(
      stablehlo::DivOp::create(builder, op.getLoc(), op.getValue(), divisor));
}

/// The parts meet at the largest scale, as they were predicted to.
void CorrectionFlow::visitAligned(Operation &op) {
  SmallVector<Value> parts;
  for (Value value : getCarriers(op))
    if (!analysis.lookup(value).anyScale)
      parts.push_back(value);
  if (parts.empty())
    return;
  Value change = correction(parts.front());
  if (!llvm::all_of(parts,
                    [&](Value part) { return correction(part) == change; })) {
    int64_t largest = predicted(parts.front());
    for (Value part : parts)
      largest = std::max(largest, predicted(part));
    change = {};
    for (Value part : parts) {
      Value scale = scales.product(builder, op.getLoc(),
                                   scales.powerOfTwo(predicted(part) - largest),
                                   correctionOrOne(part));
      change =
          change ? stablehlo::MaxOp::create(builder, op.getLoc(), change, scale)
                       .getResult()
                 : scale;
    }
  }
  if (change)
    for (Value result : op.getResults())
      corrections[result] = change;
}

void CorrectionFlow::visitFactors(Operation &op, bool quotient) {
  Value a = correction(op.getOperand(0)), b = correction(op.getOperand(1));
  if (!a && !b)
    return;
  Value left = a ? a : scales.one(), right = b ? b : scales.one();
  corrections[op.getResult(0)] =
      quotient ? scales.quotient(builder, op.getLoc(), left, right)
               : scales.product(builder, op.getLoc(), left, right);
}

void CorrectionFlow::visit(Operation &op) {
  if (auto hint = dyn_cast<SetScaleOp>(op))
    visitHint(hint);
  if (auto point = dyn_cast<RescalePointOp>(op))
    return visitPoint(point);
  if (auto pin = dyn_cast<SetScalingOp>(op))
    return visitSetScaling(pin);
  if (auto pair = dyn_cast<DataScaleOp>(op))
    return visitDataScale(pair);
  if (llvm::none_of(op.getResults(),
                    [&](Value result) { return needed.contains(result); }))
    return;
  builder.setInsertionPointAfter(&op);
  switch (familyOf(op)) {
  case ScaleFamily::Pass:
    if (Value change = correction(op.getOperand(0)))
      for (Value result : op.getResults())
        corrections[result] = change;
    return;
  case ScaleFamily::PassEach:
    for (auto [operand, result] : llvm::zip(op.getOperands(), op.getResults()))
      if (Value change = correction(operand))
        corrections[result] = change;
    return;
  case ScaleFamily::Align:
  case ScaleFamily::Reduce:
    return visitAligned(op);
  case ScaleFamily::Product:
    return visitFactors(op, /*quotient=*/false);
  case ScaleFamily::Quotient:
    return visitFactors(op, /*quotient=*/true);
  default:
    return;
  }
}

static void eraseMarker(Operation *op) {
  if (op->getNumResults() == 1)
    op->getResult(0).replaceAllUsesWith(op->getOperand(0));
  op->erase();
}

void CorrectionFlow::run() {
  findMoved();
  findNeeded();
  SmallVector<Operation *> ops = llvm::map_to_vector(
      block, [](Operation &op) -> Operation * { return &op; });
  for (Operation *op : ops)
    visit(*op);
  for (Operation *op : llvm::reverse(ops))
    if (isa<RescalePointOp, SetScalingOp, DataScaleOp>(op))
      eraseMarker(op);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

static int64_t countBytes(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

namespace {
struct ApplyRescalesPass : scalify::impl::ApplyRescalesBase<ApplyRescalesPass> {
  using ApplyRescalesBase::ApplyRescalesBase;

  void runOnOperation() override {
    bool any = false;
    getOperation().walk([&](Operation *op) {
      any |= isa<RescalePointOp, SetScalingOp, DataScaleOp>(op);
    });
    if (!any)
      return markAllAnalysesPreserved();
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal() || !func.getBody().hasOneBlock())
        continue;
      ScaleAnalysis analysis(func);
      func.walk<WalkOrder::PreOrder>([&](Block *block) {
        // Reducers and the like hold rank-0 ops only.
        CorrectionFlow(*block, analysis).run();
      });
    }
    getOperation().walk([&](MeasuredScaleOp op) {
      ++numMeasured;
      bytesMeasured += countBytes(op.getValue()) / op.getSample();
    });
  }
};
} // namespace
