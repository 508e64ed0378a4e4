//===- Window.cpp - Windows of reductions and convolutions ----------------===//

#include "scalify/Dialect/StableHLO/Window.h"

#include <limits>

using namespace mlir;
using namespace scalify::stablehlo;

/// Products of two numbers of 64 bits, and sums of them.
using Wide = __int128;

/// The extent of `size` elements with `dilation - 1` holes between them.
static Wide dilated(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : Wide(size - 1) * dilation + 1;
}

int64_t WindowDim::positions(int64_t base) const {
  if (ShapedType::isDynamic(base) || ShapedType::isDynamic(size))
    return ShapedType::kDynamic;
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  Wide padded = Wide(low) + dilated(base, baseDilation) + high;
  Wide extent = dilated(size, windowDilation);
  // Offsets are numbers of 64 bits. No tensor has as many positions.
  if (padded > most)
    return most;
  if (padded <= 0 || extent > padded)
    return 0;
  return int64_t((padded - extent) / stride) + 1;
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
      bool mayBeDynamic = member == &WindowDim::size;
      if (value <= 0 && !(mayBeDynamic && ShapedType::isDynamic(value)))
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
