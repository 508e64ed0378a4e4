//===- ScalifyOps.cpp - Folds and verifiers -------------------------------===//

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace scalify;

#define GET_OP_CLASSES
#include "scalify/Dialect/Scalify/ScalifyOps.cpp.inc"

LogicalResult UnpackOp::fold(FoldAdaptor, SmallVectorImpl<OpFoldResult> &out) {
  auto pack = getSource().getDefiningOp<PackOp>();
  if (!pack)
    return failure();
  out.assign({pack.getData(), pack.getScale()});
  return success();
}

/// One value, or two constants of equal value.
static bool isSameScale(Value a, Value b) {
  if (a == b)
    return true;
  DenseElementsAttr x, y;
  return matchPattern(a, m_Constant(&x)) && matchPattern(b, m_Constant(&y)) &&
         x == y;
}

OpFoldResult RescaleOp::fold(FoldAdaptor) {
  Value data = getData(), from = getFrom();
  bool changed = false;
  while (auto inner = data.getDefiningOp<RescaleOp>()) {
    if (!isSameScale(inner.getTo(), from))
      break;
    data = inner.getData();
    from = inner.getFrom();
    changed = true;
  }
  if (isSameScale(from, getTo()))
    return data;
  if (!changed)
    return {};
  getDataMutable().assign(data);
  getFromMutable().assign(from);
  return getResult();
}

static LogicalResult verifySameShape(Operation *op, Type a, Type b) {
  if (cast<ShapedType>(a).getShape() != cast<ShapedType>(b).getShape())
    return op->emitOpError("expects operand and result of one shape, got ")
           << a << " and " << b;
  return success();
}

LogicalResult QuantizeOp::verify() {
  return verifySameShape(*this, getValue().getType(), getType());
}

LogicalResult DequantizeOp::verify() {
  return verifySameShape(*this, getData().getType(), getType());
}
