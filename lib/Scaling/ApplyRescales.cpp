//===- ApplyRescales.cpp - Propagate run-time scales to casts -------------===//
//
// Every value is a true value, and only casts use scales. So a measured scale
// needs no second form of the graph. It is a rank-0 correction of the predicted
// scale, a power of two unless arguments are measured
// (ArgumentCorrections.cpp), and it propagates by the same families. Products
// multiply corrections, sums take the larger scale, and non-linear ops end the
// propagation. Only corrections that a dot's scalify.scale_hint reads are
// built.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Edits.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Scaling/Passes.h"

#include "CorrectionFlow.h"
#include "scalify/Scaling/MeasuredArguments.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>

namespace scalify {
#define GEN_PASS_DEF_APPLYRESCALES
#include "scalify/Scaling/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static bool isRunTimeOverride(Operation *op) {
  auto pin = dyn_cast<OverrideScaleOp>(op);
  return pin && !getConstantScale(pin.getScale());
}

static ScaleFamily familyOf(Operation &op) {
  auto rule = dyn_cast<ScaleRuleInterface>(op);
  return rule ? rule.getScaleFamily() : ScaleFamily::True;
}

/// Returns the power of its first operand that the op computes, if any. A
/// factor of the operand becomes that power of the factor.
static std::optional<double> getPower(Operation &op) {
  if (isa<stablehlo::SqrtOp>(op))
    return 0.5;
  if (isa<stablehlo::RsqrtOp>(op))
    return -0.5;
  return std::nullopt;
}

SmallVector<Value> CorrectionFlow::getCorrectionOperands(Operation &op) const {
  SmallVector<Value> carriers;
  switch (familyOf(op)) {
  case ScaleFamily::PassEach:
  case ScaleFamily::Align:
  case ScaleFamily::Reduce:
    llvm::copy_if(op.getOperands(), std::back_inserter(carriers),
                  [](Value value) { return isFloatTensor(value.getType()); });
    return carriers;
  case ScaleFamily::Pass:
    return {op.getOperand(0)};
  case ScaleFamily::Product:
  case ScaleFamily::Quotient:
    return {op.getOperand(0), op.getOperand(1)};
  default:
    if (getPower(op))
      return {op.getOperand(0)};
    if (isFunction(op))
      llvm::copy_if(op.getOperands(), std::back_inserter(carriers),
                    [](Value value) { return isFloatTensor(value.getType()); });
    return carriers;
  }
}

/// Returns the scale that propagation wrote on the op. Facts inferred again may
/// differ, since hints separate the ops that a composite rule matches.
int64_t CorrectionFlow::predicted(Value value) {
  // For rank 0 only the facts give the size; the scale is always one.
  if (!isFloatTensor(value.getType()) ||
      cast<ShapedType>(value.getType()).getRank() == 0)
    return lookup(value).scaleExponent();
  if (auto result = dyn_cast<OpResult>(value))
    if (auto scale = result.getOwner()->getAttrOfType<IntegerAttr>(kScaleAttr);
        scale && result.getResultNumber() == 0)
      return scale.getInt();
  if (auto arg = dyn_cast<BlockArgument>(value))
    if (auto carries =
            arg.getOwner()->getParentOp()->getAttrOfType<DenseI64ArrayAttr>(
                kCarryScalesAttr))
      return carries[arg.getArgNumber()];
  return lookup(value).scaleExponent();
}

Value CorrectionFlow::getCurrentScale(Value value) {
  return scales.product(builder, value.getLoc(),
                        scales.powerOfTwo(predicted(value)),
                        getCorrectionOrOne(value));
}

void CorrectionFlow::findMoved(Block &body) {
  for (Operation &op : body.without_terminator()) {
    if (stablehlo::isControlFlow(&op)) {
      findMovedByRegions(op);
      continue;
    }
    bool isSource = isa<RescalePointOp>(op) || isRunTimeOverride(&op);
    if (isSource || llvm::any_of(getCorrectionOperands(op), [&](Value value) {
          return moved.contains(value);
        }))
      moved.insert_range(op.getResults());
  }
}

void CorrectionFlow::findNeeded(Block &body) {
  for (Operation &op : llvm::reverse(body)) {
    if (stablehlo::isControlFlow(&op)) {
      findNeededByRegions(op);
      continue;
    }
    bool reads = isa<ScaleHintOp, DataScaleOp>(op) ||
                 llvm::any_of(op.getResults(), [&](Value result) {
                   return needed.contains(result);
                 });
    if (!reads)
      continue;
    // A measured scale starts from its operand's current scale.
    if (isa<ScaleHintOp, DataScaleOp, RescalePointOp>(op))
      needed.insert(op.getOperand(0));
    for (Value value : getCorrectionOperands(op))
      if (moved.contains(value))
        needed.insert(value);
  }
}

void CorrectionFlow::visitHint(ScaleHintOp hint) {
  Value change = getScalarCorrection(hint.getValue());
  if (!change)
    return;
  // Insert after the correction, not at the hint: the cast may move out of the
  // hint's body.
  builder.setInsertionPointAfterValue(change);
  Value scale = hint.getScale();
  // Hints of one value share a cast, and so its scale.
  Value &known = hintScales[{scale, change}];
  if (known) {
    scale = known;
  } else if (isFractional) {
    // Times half a binade and rounded down: the nearest power of two in log2.
    if (std::optional<float> exponent = getConstantScale(scale))
      scale = scales.constant(*exponent * std::sqrt(2.0f));
    scale = scales.product(builder, hint.getLoc(), scale, change);
    scale =
        RoundScaleOp::create(builder, hint.getLoc(), scale.getType(), scale);
  } else {
    scale = scales.product(builder, hint.getLoc(), scale, change);
  }
  known = scale;
  hint.getScaleMutable().assign(scale);
  if (StringAttr rule = growthRules.lookup(hint.getValue()))
    return hint.setRuleAttr(rule);
  StringRef rule = hint.getRule().value_or("");
  hint.setRule(
      (rule + (isMeasured ? " (predicted), times what is measured in the step"
                          : " (predicted), times the growth of a loop's carry"))
          .str());
}

void CorrectionFlow::visitPoint(RescalePointOp point) {
  builder.setInsertionPointAfter(point);
  Value value = point.getValue(), result = point.getResult();
  if (needed.contains(result)) {
    Value base = getCurrentScale(value);
    isMeasured = true;
    Value scale;
    if (point.getAxes())
      scale = rows.measure(point, base, scales.powerOfTwo(predicted(value)));
    else
      scale = MeasuredScaleOp::create(builder, point.getLoc(), base.getType(),
                                      point.getStatistic(), value, base,
                                      point.getSample());
    copyPhase(point, scale.getDefiningOp());
    corrections[result] = scales.quotient(builder, point.getLoc(), scale,
                                          scales.powerOfTwo(predicted(value)));
  }
}

void CorrectionFlow::visitOverride(OverrideScaleOp op) {
  if (!isRunTimeOverride(op) || !needed.contains(op.getResult()))
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
  Value scale = scales.powerOfTwo(predicted(op.getValue()));
  if (Value change = getRoundedCorrection(op.getValue()))
    scale = scales.product(builder, op.getLoc(), scale, change);
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

/// Aligns the operands at the largest of their predicted scales. If arguments
/// are measured, and so may be far from predictions, the result's bound limits
/// the scale.
void CorrectionFlow::visitAligned(Operation &op) {
  SmallVector<Value> parts;
  for (Value value : getCorrectionOperands(op))
    if (!lookup(value).anyScale)
      parts.push_back(value);
  if (parts.empty())
    return;
  Value change = getScalarCorrection(parts.front());
  if (!llvm::all_of(parts, [&](Value part) {
        return getScalarCorrection(part) == change;
      })) {
    int64_t largest = predicted(parts.front());
    for (Value part : parts)
      largest = std::max(largest, predicted(part));
    // An operand beyond the result's bound is not selected where it is that
    // large, as the branch for small arguments in an expanded erfc.
    double bound = lookup(op.getResult(0)).bound;
    bool isLimited = measuresArguments && std::isfinite(bound) && bound > 0;
    if (isLimited && std::exp2(static_cast<double>(largest)) > bound)
      largest = predicted(op.getResult(0));
    change = {};
    for (Value part : parts) {
      Value scale = scales.product(builder, op.getLoc(),
                                   scales.powerOfTwo(predicted(part) - largest),
                                   getCorrectionOrOne(part));
      change =
          change ? stablehlo::MaxOp::create(builder, op.getLoc(), change, scale)
                       .getResult()
                 : scale;
    }
    if (isLimited)
      change = stablehlo::MinOp::create(
          builder, op.getLoc(), change,
          scales.constant(static_cast<float>(
              bound / std::exp2(static_cast<double>(largest)))));
  }
  if (change)
    for (Value result : op.getResults())
      corrections[result] = change;
}

void CorrectionFlow::visitFactors(Operation &op, bool quotient) {
  Value a = getScalarCorrection(op.getOperand(0));
  Value b = getScalarCorrection(op.getOperand(1));
  if (!a && !b)
    return;
  Value left = a ? a : scales.one(), right = b ? b : scales.one();
  corrections[op.getResult(0)] =
      quotient ? scales.quotient(builder, op.getLoc(), left, right)
               : scales.product(builder, op.getLoc(), left, right);
}

void CorrectionFlow::visitPower(Operation &op) {
  Value change = getScalarCorrection(op.getOperand(0));
  if (!change)
    return;
  // The square root of 2 is no power of two.
  isFractional = true;
  Value root = stablehlo::SqrtOp::create(builder, op.getLoc(), change);
  corrections[op.getResult(0)] =
      *getPower(op) > 0
          ? root
          : scales.quotient(builder, op.getLoc(), scales.one(), root);
}

void CorrectionFlow::visit(Operation &op) {
  if (stablehlo::isControlFlow(&op))
    return visitRegions(op);
  if (auto hint = dyn_cast<ScaleHintOp>(op)) {
    rows.visit(hint);
    visitHint(hint);
  }
  if (isa<RescalePointOp, OverrideScaleOp, DataScaleOp>(op))
    markers.push_back(&op);
  if (auto point = dyn_cast<RescalePointOp>(op))
    return visitPoint(point);
  if (auto pin = dyn_cast<OverrideScaleOp>(op))
    return visitOverride(pin);
  if (auto pair = dyn_cast<DataScaleOp>(op))
    return visitDataScale(pair);
  if (llvm::none_of(op.getResults(),
                    [&](Value result) { return needed.contains(result); }))
    return;
  builder.setInsertionPointAfter(&op);
  rows.flow(op, [&](Value value) { return getRoundedCorrection(value); });
  visitMoved(op);
}

void CorrectionFlow::visitMoved(Operation &op) {
  if (hasCurveOperand(op) && visitFunction(op))
    return;
  switch (familyOf(op)) {
  case ScaleFamily::Pass:
    if (Value change = moveCorrection(op))
      corrections[op.getResult(0)] = change;
    return;
  case ScaleFamily::PassEach:
    for (auto [operand, result] : llvm::zip(op.getOperands(), op.getResults()))
      if (Value change = correction(operand))
        corrections[result] = change;
    return;
  case ScaleFamily::Align:
    if (measuresArguments && isa<stablehlo::AddOp, stablehlo::SubtractOp>(op))
      return visitSum(op);
    // A constant limit does not change with the value that it limits.
    if (measuresArguments &&
        isa<stablehlo::ClampOp, stablehlo::MaxOp, stablehlo::MinOp>(op) &&
        visitFunction(op))
      return;
    return visitAligned(op);
  case ScaleFamily::Reduce:
    return visitAligned(op);
  case ScaleFamily::Product:
    return visitFactors(op, /*quotient=*/false);
  case ScaleFamily::Quotient:
    return visitFactors(op, /*quotient=*/true);
  default:
    if (getPower(op))
      visitPower(op);
    else if (isFunction(op))
      visitFunction(op);
  }
}

void CorrectionFlow::visitBlock(Block &body) {
  SmallVector<Operation *> ops = llvm::map_to_vector(
      body, [](Operation &op) -> Operation * { return &op; });
  for (Operation *op : ops)
    visit(*op);
}

static void eraseMarker(Operation *op) {
  if (op->getNumResults() == 1)
    op->getResult(0).replaceAllUsesWith(op->getOperand(0));
  op->erase();
}

LogicalResult CorrectionFlow::run() {
  findMeasured();
  findMoved(block);
  findNeeded(block);
  measureArguments();
  visitBlock(block);
  if (failed(rows.finish()))
    return failure();
  for (Operation *op : llvm::reverse(markers))
    eraseMarker(op);
  stablehlo::eraseDeadOps(block, /*inControlFlow=*/true);
  return success();
}

namespace {
struct ApplyRescalesPass : scalify::impl::ApplyRescalesBase<ApplyRescalesPass> {
  using ApplyRescalesBase::ApplyRescalesBase;

  void runOnOperation() override {
    bool any = false;
    getOperation().walk([&](Operation *op) {
      any |= isa<RescalePointOp, OverrideScaleOp, DataScaleOp>(op) ||
             op->hasAttr(kGrowingCarriesAttr);
      if (auto func = dyn_cast<func::FuncOp>(op))
        for (unsigned i = 0; i < func.getNumArguments(); ++i)
          any |= func.getArgAttr(i, kMeasuredAttr) != nullptr;
    });
    if (!any)
      return markAllAnalysesPreserved();
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal() || !func.getBody().hasOneBlock())
        continue;
      ScaleAnalysis analysis(func);
      CorrectionFlow flow(func.getBody().front(), analysis, strict, remarks);
      if (failed(flow.run()))
        return signalPassFailure();
      reportArguments(func, flow);
    }
    getOperation().walk([&](MeasuredScaleOp op) {
      ++numMeasured;
      bytesMeasured += countBytes(op.getValue()) / op.getSample();
    });
    getOperation().walk([&](MeasuredRowScalesOp op) {
      ++numMeasured;
      bytesMeasured += countBytes(op.getValue());
    });
  }

  /// Warns once of the cost per step, and names the way out.
  void reportArguments(func::FuncOp func, const CorrectionFlow &flow) {
    unsigned count = 0;
    int64_t bytes = 0;
    for (BlockArgument arg : func.getArguments()) {
      if (!func.getArgAttr(arg.getArgNumber(), kMeasuredAttr))
        continue;
      if (flow.getReadArguments().contains(arg)) {
        ++count;
        bytes += countBytes(arg);
      } else {
        func.removeArgAttr(arg.getArgNumber(), kMeasuredAttr);
      }
    }
    if (count > 0 && tellMeasured)
      func.emitWarning() << "the step measures " << count
                         << (count == 1 ? " argument" : " arguments")
                         << " without a declared scale, " << bytes
                         << " bytes in each step: scales that are given "
                            "(scales=, --scales, --state) are constants";
  }
};
} // namespace
