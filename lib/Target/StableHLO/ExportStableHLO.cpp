//===- ExportStableHLO.cpp - Export to plain StableHLO --------------------===//

#include "ExportRandomBits.h"
#include "FP8Dots.h"
#include "ProbeCasts.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Precision/Blocks.h"
#include "scalify/Precision/MeasuredScale.h"
#include "scalify/Precision/Rounding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/TypeSwitch.h"

namespace scalify {
#define GEN_PASS_DEF_EXPORTSTABLEHLO
#include "scalify/Target/StableHLO/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

StringRef scalify::stringifyFP8Form(FP8Form form) {
  switch (form) {
  case FP8Form::Wide:
    return "wide";
  case FP8Form::XLAGPU:
    return "xla-gpu";
  case FP8Form::Plain:
    return "plain";
  }
  return "";
}

std::optional<FP8Form> scalify::symbolizeFP8Form(StringRef name) {
  for (FP8Form form : {FP8Form::Wide, FP8Form::XLAGPU, FP8Form::Plain})
    if (stringifyFP8Form(form) == name)
      return form;
  return std::nullopt;
}

static Value convertTo(OpBuilder &builder, Location loc, Value value,
                       Type element) {
  if (cast<ShapedType>(value.getType()).getElementType() == element)
    return value;
  return stablehlo::ConvertOp::create(builder, loc, value, element);
}

/// Returns `value * scale`, or `value / scale`, with a broadcast of the rank-0
/// scale. A constant's inverse is exact, since scales are powers of two.
static Value multiplyByScale(OpBuilder &builder, Location loc, Value value,
                             Value scale, bool inverse) {
  auto type = cast<RankedTensorType>(value.getType());
  DenseFPElementsAttr constant;
  if (matchPattern(scale, m_Constant(&constant)) && constant.isSplat()) {
    double x = constant.getSplatValue<APFloat>().convertToFloat();
    if (x == 1)
      return value;
    Value factor = stablehlo::buildNumber(
        builder, loc, RankedTensorType::get({}, type.getElementType()),
        inverse ? 1 / x : x);
    Value wide = stablehlo::BroadcastInDimOp::create(builder, loc, type, factor,
                                                     ArrayRef<int64_t>{});
    return stablehlo::MulOp::create(builder, loc, value, wide);
  }
  Value wide = stablehlo::BroadcastInDimOp::create(builder, loc, type, scale,
                                                   ArrayRef<int64_t>{});
  if (inverse)
    return stablehlo::DivOp::create(builder, loc, value, wide);
  return stablehlo::MulOp::create(builder, loc, value, wide);
}

/// XLA:GPU fuses a cast of a dot's result into the dot if it is a clamp and a
/// convert, and then clamps infinities.
static bool isFusedByXLA(QuantizeOp op, FP8Form form) {
  return form == FP8Form::XLAGPU && isa_and_nonnull<stablehlo::DotGeneralOp>(
                                        op.getValue().getDefiningOp());
}

static void exportQuantize(QuantizeOp op, FP8Form form) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  Value wide = convertTo(builder, loc, op.getValue(), builder.getF32Type());
  Value scaled = multiplyByScale(builder, loc, wide, op.getScale(), true);
  auto format =
      cast<FloatType>(cast<ShapedType>(op.getType()).getElementType());
  double largest = getLargestFinite(format);
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  Value clamped = stablehlo::ClampOp::create(
      builder, loc, stablehlo::buildNumber(builder, loc, scalar, -largest),
      scaled, stablehlo::buildNumber(builder, loc, scalar, largest));
  // An infinity becomes NaN in FP8, and stays one in 16 bits.
  if (!isFusedByXLA(op, form)) {
    Value isFinite = stablehlo::IsFiniteOp::create(builder, loc, scaled);
    Value other = scaled;
    if (format.getWidth() == 8)
      other = stablehlo::buildNumber(builder, loc,
                                     cast<RankedTensorType>(scaled.getType()),
                                     std::numeric_limits<float>::quiet_NaN());
    clamped =
        stablehlo::SelectOp::create(builder, loc, isFinite, clamped, other);
  }
  op.replaceAllUsesWith(convertTo(builder, loc, clamped, format));
  op.erase();
}

static void exportDequantize(DequantizeOp op) {
  OpBuilder builder(op);
  Type element = cast<ShapedType>(op.getType()).getElementType();
  Value wide =
      convertTo(builder, op.getLoc(), op.getData(), builder.getF32Type());
  Value scaled =
      multiplyByScale(builder, op.getLoc(), wide, op.getScale(), false);
  op.replaceAllUsesWith(convertTo(builder, op.getLoc(), scaled, element));
  op.erase();
}

static void exportScaleHint(ScaleHintOp op) {
  op.replaceAllUsesWith(op.getValue());
  op.erase();
}

static void eraseScalifyAttributes(Operation *op) {
  SmallVector<StringAttr> names;
  for (NamedAttribute attr : op->getDiscardableAttrs())
    if (StringRef name = attr.getName();
        name.starts_with("scalify.") || name.starts_with("plan."))
      names.push_back(attr.getName());
  for (StringAttr name : names)
    op->removeDiscardableAttr(name);
}

static void eraseArgumentAttributes(func::FuncOp func) {
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    for (NamedAttribute attr :
         mlir::function_interface_impl::getArgAttrs(func, i))
      if (attr.getName().strref().starts_with("scalify."))
        func.removeArgAttr(i, attr.getName());
}

/// Clones the op that defines `value`, and its operands, at the builder.
static LogicalResult copyInto(OpBuilder &builder, Value value,
                              IRMapping &copies) {
  if (copies.contains(value))
    return success();
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumRegions() > 0 || !isPure(op))
    return failure();
  for (Value operand : op->getOperands())
    if (failed(copyInto(builder, operand, copies)))
      return failure();
  builder.clone(*op, copies);
  return success();
}

/// A manual computation must not capture values: clones the constants that it
/// shares with the function into its body.
static LogicalResult isolate(sdy::ManualComputationOp op) {
  llvm::SetVector<Value> captures;
  getUsedValuesDefinedAbove(op.getBody(), captures);
  OpBuilder builder = OpBuilder::atBlockBegin(&op.getBody().front());
  IRMapping copies;
  for (Value captured : captures) {
    if (failed(copyInto(builder, captured, copies)))
      return op.emitOpError("reads a ")
             << captured.getType()
             << " from outside that is no constant: pass it as an operand";
    replaceAllUsesInRegionWith(captured, copies.lookup(captured), op.getBody());
  }
  return success();
}

namespace {
struct ExportStableHLOPass
    : scalify::impl::ExportStableHLOBase<ExportStableHLOPass> {
  using ExportStableHLOBase::ExportStableHLOBase;

  void runOnOperation() override {
    expandBlocks(getOperation());
    if (probeCasts)
      for (auto func : getOperation().getOps<func::FuncOp>()) {
        if (!func.isPublic())
          continue;
        if (failed(checkCastsAreReachable(func)))
          return signalPassFailure();
        appendCastProbes(func);
      }
    writeFP8Dots(getOperation(), fp8Form);
    getOperation().walk(expandRounding);
    getOperation().walk(exportRandomBits);
    getOperation().walk([&](Operation *op) {
      llvm::TypeSwitch<Operation *>(op)
          .Case([&](QuantizeOp cast) { exportQuantize(cast, fp8Form); })
          .Case(exportDequantize)
          .Case(exportScaleHint);
    });
    WalkResult left = getOperation().walk([](Operation *op) -> WalkResult {
      eraseScalifyAttributes(op);
      if (auto func = dyn_cast<func::FuncOp>(op))
        eraseArgumentAttributes(func);
      if (isa_and_nonnull<ScalifyDialect>(op->getDialect()))
        return op->emitOpError("has no StableHLO form: run "
                               "scalify-propagate and scalify-quantize first");
      return WalkResult::advance();
    });
    if (left.wasInterrupted())
      return signalPassFailure();
    // Dots of one value each have their own dequantize.
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());
    WalkResult isolated = getOperation().walk(
        [](sdy::ManualComputationOp op) -> WalkResult { return isolate(op); });
    if (isolated.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
