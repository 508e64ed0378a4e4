//===- Caster.cpp - Cast each value once per format -----------------------===//

#include "Caster.h"

#include "CarriedScales.h"
#include "DotDecisions.h"
#include "FreeScales.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/StageBorders.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Precision/MeasuredScale.h"
#include "scalify/Scaling/Priors.h"
#include "scalify/Scaling/ScaleArithmetic.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

void scalify::eraseScale(Operation *op) {
  for (StringRef name :
       {StringRef(kScaleAttr), StringRef(kRuleAttr), StringRef(kByPriorAttr)})
    op->removeAttr(name);
}

void Caster::refuse(Operation *op, const llvm::Twine &what) {
  if (!strict) {
    op->emitRemark(what);
    return;
  }
  op->emitError(what) << " (strict)";
  failed = true;
}

Value Caster::makeConstant(float value) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&block);
  auto type = RankedTensorType::get({}, builder.getF32Type());
  return stablehlo::ConstantOp::create(
      builder, builder.getUnknownLoc(),
      mlir::cast<ElementsAttr>(DenseElementsAttr::get(type, value)));
}

/// Run-time scales are for formats with fewer binades than F32. BF16 has as
/// many, so that a power of two changes no digit of its values.
bool Caster::needsNoScale(ScaleHint hint, FloatType format) const {
  if (!format.isBF16() || hint.isPrescribed)
    return false;
  switch (recipe.getScales()) {
  case ScaleSource::Propagated:
  case ScaleSource::Delayed:
    return !getConstantScale(hint.scale);
  case ScaleSource::Current:
  case ScaleSource::Block:
    return true;
  case ScaleSource::Unit:
  case ScaleSource::None:
    break;
  }
  return false;
}

/// Moves the insertion point after `scale` if that is defined after the value,
/// or in a body that reads the value. A scale defined before the value, as
/// constants are, needs no move.
void Caster::insertAfterScale(Value scale) {
  Block *here = builder.getInsertionBlock();
  Operation *def = scale.getDefiningOp();
  bool isInBody = scale.getParentBlock() != here &&
                  here->getParent()->isProperAncestor(scale.getParentRegion());
  bool isLater = def && def->getBlock() == here &&
                 builder.getInsertionPoint() != here->end() &&
                 !def->isBeforeInBlock(&*builder.getInsertionPoint());
  if (isInBody || isLater)
    builder.setInsertionPointAfterValue(scale);
}

Value Caster::makeScale(Value root, ScaleHint hint, FloatType format) {
  if (hint.isPrescribed)
    return hint.scale;
  if (needsNoScale(hint, format))
    return makeConstant(1.0f);
  int64_t margin = recipe.getDelayed().margin;
  switch (recipe.getScales()) {
  case ScaleSource::Propagated:
  case ScaleSource::Delayed: {
    Value scale = lowerGradientScale(root, hint.scale, format);
    if (!measures || hint.isProved || format.isBF16())
      return scale;
    // The hint's own constant may be defined after the value.
    if (std::optional<int64_t> exponent = getScaleExponent(scale))
      scale = makeConstant(std::ldexp(1.0f, static_cast<int>(*exponent)));
    OpBuilder::InsertionGuard guard(builder);
    insertAfterScale(scale);
    return buildFittedScale(builder, root.getLoc(), root, scale, format);
  }
  case ScaleSource::Block:
    if (hint.block)
      return buildBlockScales(builder, root.getLoc(), root, format, margin,
                              hint.block);
    [[fallthrough]];
  case ScaleSource::Current:
    return buildAmaxScale(builder, root.getLoc(), root, format, margin);
  case ScaleSource::Unit:
  case ScaleSource::None:
    break;
  }
  int exponent =
      isGradient(root) ? static_cast<int>(recipe.getGradientExponent()) : 0;
  return makeConstant(std::ldexp(1.0f, exponent));
}

/// Gradients fall during training (the loss falls, the residual stream grows),
/// so their predicted scale is lowered if the format has as many binades above
/// 1 as below it. E4M3 has 8.8 binades above 1, which the tails of a
/// distribution need; a measured scale follows the fall by itself.
Value Caster::lowerGradientScale(Value root, Value scale, FloatType format) {
  auto exponent = static_cast<int>(recipe.getGradientExponent());
  DenseFPElementsAttr known;
  if (exponent == 0 || isa<Float8E4M3FNType>(format) || !isGradient(root) ||
      !matchPattern(scale, m_Constant(&known)))
    return scale;
  APFloat value = known.getSplatValue<APFloat>();
  return makeConstant(std::ldexp(value.convertToFloat(), exponent));
}

/// Gives the cast the phase of its operand.
static void markPhase(QuantizeOp quantize) {
  Value root = quantize.getValue();
  // A slice, in the backward, of a saved forward value is a forward value.
  Operation *def = root.getDefiningOp();
  Phase phase = def ? getPhase(def) : Phase::Forward;
  if (isGradient(root))
    phase = Phase::Backward;
  else if (phase == Phase::Backward)
    phase = Phase::Forward;
  setPhase(quantize, phase);
}

Value Caster::castData(Value value, ScaleHint hint, Type format) {
  builder.setInsertionPointAfterValue(value);
  auto type = mlir::cast<RankedTensorType>(value.getType()).clone(format);
  auto quantize =
      QuantizeOp::create(builder, value.getLoc(), type, value, hint.scale,
                         builder.getStringAttr(names.getName(value, format)));
  quantize->setAttr(kRuleAttr,
                    hint.rule ? hint.rule : builder.getStringAttr("stacked"));
  markPhase(quantize);
  return quantize;
}

unsigned Caster::getReaderOrder(BlockArgument argument) {
  if (readers.empty())
    block.getParentOp()->walk([&](ScaleHintOp hint) {
      readers.try_emplace(getCastRoot(hint.getValue()), readers.size());
    });
  auto it = readers.find(argument);
  return it == readers.end() ? readers.size() : it->second;
}

void Caster::insertInReaderOrder(BlockArgument argument, Value scale) {
  Block *here = argument.getOwner();
  Operation *def = scale.getDefiningOp();
  if (def && def->getBlock() == here && def->hasTrait<OpTrait::ConstantLike>())
    def->moveBefore(&here->front());
  insertAfterScale(scale);
  if (builder.getInsertionBlock() != here)
    return;
  unsigned order = getReaderOrder(argument);
  Operation *last = nullptr;
  for (auto cast : here->getOps<QuantizeOp>())
    if (auto other = mlir::dyn_cast<BlockArgument>(cast.getValue());
        other && getReaderOrder(other) < order)
      last = cast;
  if (last && builder.getInsertionPoint() != here->end() &&
      !last->isBeforeInBlock(&*builder.getInsertionPoint()))
    builder.setInsertionPointAfter(last);
}

Caster::Cast Caster::castRoot(Value root, ScaleHint hint, FloatType format) {
  Cast &known = casts[{{root, format}, hint.getKind()}];
  if (known.data)
    return known;
  builder.setInsertionPointAfterValue(root);
  Value scale = makeScale(root, hint, format);
  // If a body measures the scale of a value from outside, no other body may
  // share the cast.
  Cast own;
  bool isOwn =
      root.getParentRegion()->isProperAncestor(scale.getParentRegion());
  Cast &cast = isOwn ? own : known;
  auto argument = mlir::dyn_cast<BlockArgument>(root);
  if (argument)
    insertInReaderOrder(argument, scale);
  else
    insertAfterScale(scale);
  auto type = mlir::cast<RankedTensorType>(root.getType()).clone(format);
  auto quantize = QuantizeOp::create(
      builder, root.getLoc(), type, root, scale,
      builder.getStringAttr(
          names.getName(root, format, hint.getKind(), isOwn ? scale : Value())),
      hint.block);
  if (hint.stream) {
    quantize.setRounding(RoundingMode::Stochastic);
    quantize.setStreamAttr(hint.stream);
  }
  std::string rule = hint.rule ? hint.rule.str() : "argument";
  if (needsNoScale(hint, format))
    rule = "bf16: as many binades as f32";
  else if (recipe.getScales() == ScaleSource::Propagated &&
           scale != hint.scale && getScaleExponent(scale))
    rule += "; 2^" + std::to_string(recipe.getGradientExponent()) +
            ": room for gradients that fall";
  quantize->setAttr(kRuleAttr, builder.getStringAttr(rule));
  Operation *def = root.getDefiningOp();
  bool isPredicted = !hint.isPrescribed && !format.isBF16() &&
                     getScaleExponent(scale).has_value();
  if (isPredicted && (hint.isByPrior || (def && def->hasAttr(kByPriorAttr))))
    quantize->setAttr(kByPriorAttr, builder.getUnitAttr());
  markPhase(quantize);
  cast = {quantize, scale};
  return cast;
}

Value Caster::castOperand(ScaleHintOp hint, Type format,
                          DenseI64ArrayAttr sizes) {
  ScaleHint given{hint.getScale(), hint.getRuleAttr(), sizes};
  if (measures && !moving)
    moving = findVaryingArguments(
        mlir::cast<FunctionOpInterface>(block.getParentOp()));
  given.isProved = measures && isProvedToFit(hint, *moving);
  given.isByPrior = hint->hasAttr(kByPriorAttr);
  return cast(hint.getValue(), given, format, hint->getBlock());
}

/// Replays the moves from `root` to `operand` on `data`.
Value Caster::move(Value operand, Value root, Value data) {
  if (operand != root)
    operand = lookThrough(operand, Move::Invariant);
  if (operand == root)
    return data;
  Operation *op = operand.getDefiningOp();
  if (auto hint = dyn_cast<ScaleHintOp>(op))
    return move(hint.getValue(), root, data);
  if (stablehlo::isPlainBarrier(op))
    return move(op->getOperand(mlir::cast<OpResult>(operand).getResultNumber()),
                root, data);
  Value &entry = moved[{operand, data}];
  if (entry)
    return entry;
  Value source = move(op->getOperand(0), root, data);
  builder.setInsertionPointAfter(op);
  if (Operation *def = source.getDefiningOp())
    if (def->getBlock() == op->getBlock() && op->isBeforeInBlock(def))
      builder.setInsertionPointAfter(def);
  IRMapping mapping;
  mapping.map(op->getOperand(0), source);
  Operation *clone = builder.clone(*op, mapping);
  auto element = mlir::cast<ShapedType>(data.getType()).getElementType();
  Value result = clone->getResult(0);
  result.setType(mlir::cast<RankedTensorType>(result.getType()).clone(element));
  eraseScale(clone);
  clone->removeAttr(kWholeStackAttr);
  // The recursion may have invalidated `entry`.
  return moved[{operand, data}] = result;
}

Value Caster::cast(Value operand, ScaleHint hint, Type format, Block *user) {
  // Random words depend on the places of elements, which for a share are those
  // in the operand itself.
  Value root = hint.stream ? operand : getCastRoot(operand, hint.block);
  Cast cast = castRoot(root, hint, mlir::cast<FloatType>(format));
  Value data = move(operand, root, cast.data);
  // In the reader's block, so that a body reads narrow data from outside.
  Value &entry = wide[{data, operand.getType()}][user];
  if (!entry) {
    if (data.getParentBlock() == user)
      builder.setInsertionPointAfterValue(data);
    else
      builder.setInsertionPointToStart(user);
    auto dequantize =
        DequantizeOp::create(builder, operand.getLoc(), operand.getType(), data,
                             cast.scale, hint.block);
    if (Operation *def = data.getDefiningOp())
      copyPhase(def, dequantize);
    entry = dequantize;
  }
  return entry;
}
