//===- ScalifyHints.cpp - Scales from the user and the step ---------------===//

#include "scalify/Dialect/Scalify/ScalifyHints.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify;

#define GET_OP_CLASSES
#include "scalify/Dialect/Scalify/ScalifyHints.cpp.inc"

/// Checks that axes are strictly increasing and within the rank.
static LogicalResult verifyAxes(Operation *op, ArrayRef<int64_t> axes,
                                ShapedType type) {
  bool isOrdered = llvm::is_sorted(axes, std::less_equal<int64_t>());
  if (isOrdered && !axes.empty() && axes.front() >= 0 &&
      axes.back() < type.getRank())
    return success();
  return op->emitOpError("expects axes in increasing order, within the rank "
                         "of ")
         << type << ", got [" << axes << "]";
}

LogicalResult RescalePointOp::verify() {
  if (std::optional<ArrayRef<int64_t>> axes = getAxes())
    return verifyAxes(*this, *axes, cast<ShapedType>(getValue().getType()));
  return success();
}

LogicalResult MeasuredRowScalesOp::verify() {
  auto type = cast<ShapedType>(getValue().getType());
  if (failed(verifyAxes(*this, getAxes(), type)))
    return failure();
  SmallVector<int64_t> shape(type.getShape());
  for (int64_t axis : getAxes())
    shape[axis] = 1;
  auto result = cast<ShapedType>(getType());
  if (result.getShape() != ArrayRef(shape) || !result.getElementType().isF32())
    return emitOpError("expects a result of f32 with the value's shape and 1 "
                       "for each axis, got ")
           << result;
  return success();
}
