//===- Windows.cpp - Windows of tensors as index maps ---------------------===//

#include "Windows.h"

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <algorithm>

using namespace mlir;
using namespace scalify;

LogicalResult scalify::checkWindows(Operation *op, RankedTensorType type,
                                    ArrayRef<stablehlo::WindowDim> windows) {
  // Numbers and products of two of them leave room for sums.
  using Wide = __int128;
  constexpr Wide most = Wide(1) << 60;
  Wide padded = 16, views = 16; // bytes of the widest element
  bool fits = true;
  for (auto [size, window] : llvm::zip(type.getShape(), windows)) {
    Wide spread = size == 0 ? 0 : Wide(size - 1) * window.baseDilation + 1;
    Wide extent = std::max<Wide>(spread + window.low + window.high, 0);
    fits = fits && extent <= most && window.size <= most &&
           window.low <= most && window.low >= -most && window.high <= most &&
           window.high >= -most;
    if (!fits)
      break;
    padded *= extent;
    views *= Wide(window.positions(size)) * window.size;
    fits = padded <= most && views <= most;
  }
  if (fits)
    return success();
  return op->emitOpError("has windows whose padded operand, or whose elements, "
                         "have more bytes than 60 bits can count: pad less");
}

Value scalify::padForWindows(ImplicitLocOpBuilder &b, Value value,
                             Value padding,
                             ArrayRef<stablehlo::WindowDim> windows) {
  bool isPlain = llvm::all_of(windows, [](const stablehlo::WindowDim &window) {
    return window.low == 0 && window.high == 0 && window.baseDilation == 1;
  });
  if (isPlain)
    return value;
  SmallVector<int64_t> low, high, interior;
  for (const auto &window : windows) {
    low.push_back(window.low);
    high.push_back(window.high);
    interior.push_back(window.baseDilation - 1);
  }
  return stablehlo::PadOp::create(b, value, padding, low, high, interior);
}

Value scalify::windowsOf(ImplicitLocOpBuilder &b, Value value,
                         ArrayRef<stablehlo::WindowDim> windows) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> dims, sizes, strides, dilations, shape(type.getShape());
  for (auto [dim, window] : llvm::enumerate(windows)) {
    if (window.size == 1 && window.stride == 1)
      continue;
    dims.push_back(static_cast<int64_t>(dim));
    sizes.push_back(window.size);
    strides.push_back(window.stride);
    dilations.push_back(window.windowDilation);
    stablehlo::WindowDim inside = window;
    inside.low = inside.high = 0;
    inside.baseDilation = 1;
    shape[dim] = inside.positions(type.getDimSize(dim));
    shape.push_back(window.size);
  }
  if (dims.empty())
    return value;
  return plan::WindowsOp::create(b, type.clone(shape), value, dims, sizes,
                                 strides, dilations);
}
