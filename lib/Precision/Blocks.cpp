//===- Blocks.cpp - Expand block-scaled casts into arithmetic -------------===//

#include "scalify/Precision/Blocks.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Precision/MeasuredScale.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify;

namespace {
/// Expands one cast into arithmetic in the same phase.
class BlockExpander {
public:
  explicit BlockExpander(Operation *op)
      : op(op), builder(op), loc(op->getLoc()), before(op->getPrevNode()) {}

  void quantize(QuantizeOp cast);
  void dequantize(DequantizeOp cast);

private:
  Value makeOnes(ArrayRef<int64_t> shape) {
    auto type = RankedTensorType::get(shape, builder.getF32Type());
    return stablehlo::buildConstant(builder, loc, type, 1.0f);
  }
  Value convert(Value value, Type element) {
    if (getElementTypeOrSelf(value.getType()) == element)
      return value;
    return stablehlo::ConvertOp::create(builder, loc, value, element);
  }
  void finish(Value result);

  Operation *op;
  OpBuilder builder;
  Location loc;
  Operation *before;
};
} // namespace

void BlockExpander::finish(Value result) {
  copyPhaseToInserted(op, before);
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
}

void BlockExpander::quantize(QuantizeOp cast) {
  Value scales = cast.getScale();
  // Scales are between 2^-100 and 2^100, so that their inverses are exact.
  Value inverses = stablehlo::DivOp::create(
      builder, loc,
      makeOnes(mlir::cast<ShapedType>(scales.getType()).getShape()), scales);
  Value wide = convert(cast.getValue(), builder.getF32Type());
  Value factor = spreadBlockScales(
      builder, loc, inverses, mlir::cast<ShapedType>(wide.getType()).getShape(),
      *cast.getBlock());
  Value scaled = stablehlo::MulOp::create(builder, loc, wide, factor);
  auto narrow = QuantizeOp::create(builder, loc, cast.getType(), scaled,
                                   makeOnes({}), cast.getCastAttr());
  narrow->setDiscardableAttrs(cast->getDiscardableAttrDictionary());
  narrow->setAttr(kScaledAttr, builder.getUnitAttr());
  finish(narrow);
}

void BlockExpander::dequantize(DequantizeOp cast) {
  auto type = mlir::cast<RankedTensorType>(cast.getType());
  Value wide =
      DequantizeOp::create(builder, loc, type.clone(builder.getF32Type()),
                           cast.getData(), makeOnes({}));
  Value factor = spreadBlockScales(builder, loc, cast.getScale(),
                                   type.getShape(), *cast.getBlock());
  Value result = stablehlo::MulOp::create(builder, loc, wide, factor);
  finish(convert(result, type.getElementType()));
}

void scalify::expandBlocks(Operation *scope, bool keepDequantized) {
  scope->walk([&](Operation *op) {
    if (auto cast = dyn_cast<QuantizeOp>(op); cast && cast.getBlock())
      BlockExpander(op).quantize(cast);
    else if (auto cast = dyn_cast<DequantizeOp>(op);
             cast && cast.getBlock() && !keepDequantized)
      BlockExpander(op).dequantize(cast);
  });
}
