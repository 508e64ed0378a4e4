//===- Window.cpp - Windows of reductions and convolutions ----------------===//

#include "scalify/Dialect/StableHLO/Window.h"

using namespace mlir;
using namespace scalify::stablehlo;

/// The extent of `size` elements with `dilation - 1` holes between them.
static int64_t dilated(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : (size - 1) * dilation + 1;
}

int64_t WindowDim::positions(int64_t base) const {
  if (ShapedType::isDynamic(base) || ShapedType::isDynamic(size))
    return ShapedType::kDynamic;
  int64_t padded = low + dilated(base, baseDilation) + high;
  int64_t extent = dilated(size, windowDilation);
  if (padded <= 0 || extent > padded)
    return 0;
  return (padded - extent) / stride + 1;
}

FailureOr<SmallVector<WindowDim>>
scalify::stablehlo::readWindow(Operation *op, const WindowAttrs &attrs) {
  SmallVector<WindowDim> window(attrs.sizes.size());
  auto read = [&](StringRef name, std::optional<ArrayRef<int64_t>> values,
                  int64_t WindowDim::*member) -> LogicalResult {
    if (!values)
      return success();
    if (values->size() != window.size())
      return op->emitOpError() << "needs " << window.size() << " entries of "
                               << name << " but got " << values->size();
    for (auto [dim, value] : llvm::zip(window, *values)) {
      if (value <= 0 && !ShapedType::isDynamic(value))
        return op->emitOpError()
               << "needs positive " << name << " but got " << value;
      dim.*member = value;
    }
    return success();
  };
  if (failed(read("window dimensions", attrs.sizes, &WindowDim::size)) ||
      failed(read("window strides", attrs.strides, &WindowDim::stride)) ||
      failed(read("base dilations", attrs.baseDilations,
                  &WindowDim::baseDilation)) ||
      failed(read("window dilations", attrs.windowDilations,
                  &WindowDim::windowDilation)))
    return failure();
  if (!attrs.padding)
    return window;
  auto type = attrs.padding->getType();
  if (type.getRank() != 2 || type.getDimSize(1) != 2 ||
      type.getDimSize(0) != static_cast<int64_t>(window.size()))
    return op->emitOpError() << "needs padding of shape " << window.size()
                             << "x2 but got " << type;
  auto values = attrs.padding->getValues<int64_t>().begin();
  for (WindowDim &dim : window) {
    dim.low = *values++;
    dim.high = *values++;
  }
  return window;
}

SmallVector<int64_t>
scalify::stablehlo::windowShape(ArrayRef<int64_t> base,
                                ArrayRef<WindowDim> window) {
  SmallVector<int64_t> shape;
  for (auto [size, dim] : llvm::zip(base, window))
    shape.push_back(dim.positions(size));
  return shape;
}
