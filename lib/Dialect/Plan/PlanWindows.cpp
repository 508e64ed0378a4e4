//===- PlanWindows.cpp - Windows of tensors -------------------------------===//

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/StableHLO/Window.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::plan;

LogicalResult WindowsOp::verify() {
  auto from = cast<RankedTensorType>(getOperand().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  ArrayRef<int64_t> dims = getDims();
  if (getSizes().size() != dims.size() || getStrides().size() != dims.size() ||
      getDilations().size() != dims.size())
    return emitOpError("needs a size, a stride and a dilation per dimension");
  SmallVector<int64_t> shape(from.getShape());
  int64_t next = 0;
  for (auto [dim, size, stride, dilation] :
       llvm::zip(dims, getSizes(), getStrides(), getDilations())) {
    if (dim < next || dim >= from.getRank())
      return emitOpError("needs dimensions of the operand in ascending order");
    if (size <= 0 || stride <= 0 || dilation <= 0)
      return emitOpError("needs positive sizes, strides and dilations");
    stablehlo::WindowDim window;
    window.size = size;
    window.stride = stride;
    window.windowDilation = dilation;
    shape[dim] = window.positions(from.getDimSize(dim));
    shape.push_back(size);
    next = dim + 1;
  }
  if (to != from.clone(shape))
    return emitOpError("needs a result of type ") << from.clone(shape);
  return success();
}
