//===- RowRescales.cpp - Scales of rows that the step measures ------------===//

#include "RowRescales.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Scaling/ScaleArithmetic.h"

using namespace mlir;
using namespace scalify;

/// Broadcasts a scale to a tensor: one scale per row, or one for all elements.
Value RowScales::spread(Location loc, Value scale, Type like) {
  auto type = cast<RankedTensorType>(like);
  auto wide = type.clone(builder.getF32Type());
  if (scale.getType() != wide) {
    auto dims = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(scale).getRank()));
    scale =
        stablehlo::BroadcastInDimOp::create(builder, loc, wide, scale, dims);
  }
  if (!type.getElementType().isF32())
    scale = stablehlo::ConvertOp::create(builder, loc, scale,
                                         type.getElementType());
  return scale;
}

Value RowScales::measure(RescalePointOp point, Value base, Value predicted) {
  Location loc = point.getLoc();
  SmallVector<int64_t> shape(typeOf(point.getValue()).getShape());
  ArrayRef<int64_t> axes = *point.getAxes();
  for (int64_t axis : axes)
    shape[axis] = 1;
  auto type = RankedTensorType::get(shape, builder.getF32Type());
  auto scales = MeasuredRowScalesOp::create(
      builder, loc, type, point.getStatistic(), point.getValue(), base, axes);
  copyPhase(point, scales);
  Value ratio = scales;
  if (getConstantScale(predicted) != 1.0f)
    ratio = stablehlo::DivOp::create(builder, loc, scales,
                                     spread(loc, predicted, type));
  rows[point.getResult()] = ratio;
  return stablehlo::buildMaximum(builder, loc, scales);
}

//===----------------------------------------------------------------------===//
// Through ops
//===----------------------------------------------------------------------===//

/// Returns the shape of row scales after a reshape that keeps rows apart: the
/// dimensions with scales come first and are reshaped among themselves.
static std::optional<SmallVector<int64_t>> reshapeRows(ArrayRef<int64_t> from,
                                                       ArrayRef<int64_t> rows,
                                                       ArrayRef<int64_t> to) {
  size_t leading = 0;
  int64_t count = 1;
  for (auto [index, extent] : llvm::enumerate(rows))
    if (extent != 1)
      leading = index + 1;
  for (size_t i = 0; i < leading; ++i) {
    if (rows[i] != from[i])
      return std::nullopt;
    count *= from[i];
  }
  SmallVector<int64_t> shape(to.size(), 1);
  int64_t taken = 1;
  for (size_t i = 0; i < to.size() && taken < count; ++i) {
    shape[i] = to[i];
    taken *= to[i];
  }
  return taken == count ? std::optional(shape) : std::nullopt;
}

/// Returns the row scales of the result of an op that moves, converts or
/// negates.
Value RowScales::through(Operation &op, Value scales) {
  Location loc = op.getLoc();
  if (isa<stablehlo::NegOp, stablehlo::ConvertOp,
          stablehlo::OptimizationBarrierOp>(op))
    return scales;
  if (auto transpose = dyn_cast<stablehlo::TransposeOp>(op))
    return stablehlo::TransposeOp::create(builder, loc, scales,
                                          transpose.getPermutation());
  if (!isa<stablehlo::ReshapeOp>(op))
    return {};
  std::optional<SmallVector<int64_t>> shape = reshapeRows(
      typeOf(op.getOperand(0)).getShape(), typeOf(scales).getShape(),
      typeOf(op.getResult(0)).getShape());
  if (!shape)
    return {};
  return stablehlo::ReshapeOp::create(builder, loc, scales, *shape);
}

/// Returns the row scales of a product or quotient, one of whose operands has
/// some.
Value RowScales::product(Operation &op,
                         llvm::function_ref<Value(Value)> correction) {
  Location loc = op.getLoc();
  Value a = rows.lookup(op.getOperand(0)), b = rows.lookup(op.getOperand(1));
  bool isQuotient = isa<stablehlo::DivOp>(op);
  if ((a && b && a.getType() != b.getType()) || (!a && isQuotient))
    return {};
  Type type = a ? a.getType() : b.getType();
  auto factor = [&](Value own, Value operand) -> Value {
    if (own)
      return own;
    Value other = correction(operand);
    return other ? spread(loc, other, type) : Value();
  };
  a = factor(a, op.getOperand(0));
  b = factor(b, op.getOperand(1));
  if (!a || !b)
    return a ? a : b;
  if (isQuotient)
    return stablehlo::DivOp::create(builder, loc, a, b);
  return stablehlo::MulOp::create(builder, loc, a, b);
}

void RowScales::flow(Operation &op,
                     llvm::function_ref<Value(Value)> correction) {
  if (llvm::none_of(op.getOperands(),
                    [&](Value operand) { return rows.contains(operand); }))
    return;
  if (isa<stablehlo::MulOp, stablehlo::DivOp>(op)) {
    if (Value found = product(op, correction))
      rows[op.getResult(0)] = found;
    return;
  }
  for (auto [operand, result] : llvm::zip(op.getOperands(), op.getResults()))
    if (Value own = rows.lookup(operand))
      if (Value found = through(op, own))
        rows[result] = found;
}

//===----------------------------------------------------------------------===//
// At dots
//===----------------------------------------------------------------------===//

/// Returns why the dot cannot take the operand's row scales; empty if it can.
static std::string getReasonAgainst(OpOperand &use, Value scales) {
  auto dot = dyn_cast<stablehlo::DotGeneralOp>(use.getOwner());
  if (!dot)
    return "'" + use.getOwner()->getName().getStringRef().str() +
           "' mixes the rows of its operands";
  for (Value value : {use.get(), Value(dot.getResult())}) {
    Type element = typeOf(value).getElementType();
    if (!element.isF32() && !element.isBF16())
      return "its values have fewer exponents than scales have";
  }
  auto numbers = dot.getDotDimensionNumbers();
  ArrayRef<int64_t> contracted = use.getOperandNumber() == 0
                                     ? numbers.getLhsContractingDimensions()
                                     : numbers.getRhsContractingDimensions();
  for (int64_t dim : contracted)
    if (typeOf(scales).getDimSize(dim) != 1)
      return "dimension " + std::to_string(dim) + " of operand " +
             std::to_string(use.getOperandNumber()) +
             ", along which scales differ, is contracted";
  return "";
}

void RowScales::visit(ScaleHintOp hint) {
  Value scales = rows.lookup(hint.getValue());
  if (!scales)
    return;
  for (OpOperand &use : hint.getResult().getUses()) {
    std::string reason = getReasonAgainst(use, scales);
    Operation *dot = use.getOwner();
    if (reason.empty())
      uses.push_back({hint, &use, scales, hint.getScale()});
    else if (strict)
      error = dot->emitOpError("cannot take the scales of rows: ")
              << reason << " (rescale the tensor, without axis)";
    else if (remarks)
      dot->emitRemark("the largest scale of all rows is taken: ") << reason;
  }
}

/// Divides the operand by its row scales, and hints it with the predicted
/// scale.
ScaleHintOp RowScales::normalise(const Use &use) {
  ScaleHintOp hint = use.hint;
  Location loc = hint.getLoc();
  builder.setInsertionPoint(hint);
  Value value = hint.getValue();
  // One reciprocal per row: exact for powers of two.
  auto type = typeOf(use.rows);
  Value ones = stablehlo::buildConstant(builder, loc, type, 1.0f);
  Value inverse = stablehlo::DivOp::create(builder, loc, ones, use.rows);
  auto data = stablehlo::MulOp::create(builder, loc, value,
                                       spread(loc, inverse, value.getType()));
  copyPhase(value.getDefiningOp(), data);
  if (Operation *def = value.getDefiningOp())
    if (Attribute scale = def->getAttr(kScaleAttr))
      data->setAttr(kScaleAttr, scale);
  StringRef rule = hint.getRule().value_or("");
  data->setAttr(kRuleAttr, builder.getStringAttr("over the scale of each row"));
  return ScaleHintOp::create(
      builder, loc, data, use.scale,
      builder.getStringAttr(
          (rule + " (predicted), of rows over their measured scales").str()));
}

/// Returns the dimension of the dot's result for each dimension of an operand;
/// -1 for a contracted one.
static SmallVector<int64_t> getResultDims(stablehlo::DotGeneralOp dot,
                                          unsigned operand) {
  auto numbers = dot.getDotDimensionNumbers();
  auto batch = operand == 0 ? numbers.getLhsBatchingDimensions()
                            : numbers.getRhsBatchingDimensions();
  auto contracted = operand == 0 ? numbers.getLhsContractingDimensions()
                                 : numbers.getRhsContractingDimensions();
  int64_t rank = typeOf(dot.getOperand(operand)).getRank();
  int64_t next = static_cast<int64_t>(batch.size());
  if (operand == 1)
    next = typeOf(dot.getResult()).getRank() -
           (rank - static_cast<int64_t>(batch.size() + contracted.size()));
  SmallVector<int64_t> dims;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (llvm::is_contained(contracted, dim))
      dims.push_back(-1);
    else if (llvm::is_contained(batch, dim))
      dims.push_back(llvm::find(batch, dim) - batch.begin());
    else
      dims.push_back(next++);
  }
  return dims;
}

/// Multiplies the dot's result by the operand's row scales.
void RowScales::restore(const Use &use) {
  auto dot = cast<stablehlo::DotGeneralOp>(use.operand->getOwner());
  Location loc = dot.getLoc();
  builder.setInsertionPointAfter(dot);
  auto type = typeOf(dot.getResult());
  SmallVector<int64_t> shape, dims;
  for (auto [dim, target] :
       llvm::enumerate(getResultDims(dot, use.operand->getOperandNumber())))
    if (target >= 0) {
      shape.push_back(typeOf(use.rows).getDimSize(dim));
      dims.push_back(target);
    }
  Value scales = stablehlo::ReshapeOp::create(
      builder, loc, typeOf(use.rows).clone(shape), use.rows);
  scales = stablehlo::BroadcastInDimOp::create(
      builder, loc, type.clone(builder.getF32Type()), scales, dims);
  scales = spread(loc, scales, type);
  auto result = stablehlo::MulOp::create(builder, loc, dot, scales);
  for (StringRef name : {kPhaseAttr, kScaleAttr, kRuleAttr})
    if (Attribute attr = dot->getAttr(name))
      result->setAttr(name, attr);
  dot.getResult().replaceAllUsesExcept(result, result);
}

LogicalResult RowScales::finish() {
  if (failed(error))
    return error;
  llvm::DenseMap<Operation *, ScaleHintOp> normal;
  for (const Use &use : uses) {
    ScaleHintOp &hint = normal[use.hint];
    if (!hint)
      hint = normalise(use);
    use.operand->set(hint);
    restore(use);
  }
  return success();
}
