//===- BlockScales.cpp - One scale for each block of a tensor -------------===//

#include "scalify/Precision/MeasuredScale.h"

#include "MeasuredScaleOps.h"
#include "scalify/Dialect/StableHLO/Values.h"

#include <limits>

using namespace mlir;
using namespace scalify;

namespace {
/// A shape split into blocks: dimension i has `counts[i]` blocks of `sizes[i]`.
struct Blocks {
  Blocks(ArrayRef<int64_t> shape, ArrayRef<int64_t> block);
  /// Returns the counts, each followed by its size unless that is 1. Appends
  /// the positions of the sizes to `axes`.
  SmallVector<int64_t> split(SmallVectorImpl<int64_t> &axes) const;
  SmallVector<int64_t> padded() const {
    return llvm::map_to_vector(llvm::zip_equal(counts, sizes), [](auto pair) {
      return std::get<0>(pair) * std::get<1>(pair);
    });
  }

  SmallVector<int64_t> counts, sizes;
};
} // namespace

Blocks::Blocks(ArrayRef<int64_t> shape, ArrayRef<int64_t> block) {
  for (auto [extent, size] : llvm::zip_equal(shape, block)) {
    bool isOne = size == 0 || size >= extent;
    // A block that is larger than its dimension needs no padding.
    sizes.push_back(std::max<int64_t>(isOne ? extent : size, 1));
    counts.push_back(size == 0 ? 1 : llvm::divideCeil(extent, size));
  }
}

SmallVector<int64_t> Blocks::split(SmallVectorImpl<int64_t> &axes) const {
  SmallVector<int64_t> shape;
  for (auto [count, size] : llvm::zip_equal(counts, sizes)) {
    shape.push_back(count);
    if (size == 1)
      continue;
    axes.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(size);
  }
  return shape;
}

static Value reshape(OpBuilder &builder, Location loc, Value value,
                     ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getShape() == shape)
    return value;
  return stablehlo::ReshapeOp::create(builder, loc, type.clone(shape), value);
}

/// Builds the magnitudes in F32; 0 for elements that are not finite.
static Value buildMagnitudes(OpBuilder &builder, Location loc, Value value) {
  Value magnitude = stablehlo::AbsOp::create(builder, loc, value);
  auto type = cast<RankedTensorType>(value.getType());
  if (!type.getElementType().isF32())
    magnitude = stablehlo::ConvertOp::create(builder, loc, magnitude,
                                             builder.getF32Type());
  auto spread = [&](float x) -> Value {
    return stablehlo::BroadcastInDimOp::create(
        builder, loc, type.clone(builder.getF32Type()),
        stablehlo::buildScalar(builder, loc, x), ArrayRef<int64_t>{});
  };
  // LT is false for NaN.
  Value isFinite = stablehlo::CompareOp::create(
      builder, loc, magnitude, spread(std::numeric_limits<float>::infinity()),
      stablehlo::ComparisonDirection::LT);
  return stablehlo::SelectOp::create(builder, loc, isFinite, magnitude,
                                     spread(0.0f));
}

Value scalify::buildBlockScales(OpBuilder &builder, Location loc, Value value,
                                FloatType format, int64_t margin,
                                ArrayRef<int64_t> block) {
  auto type = cast<RankedTensorType>(value.getType());
  Blocks blocks(type.getShape(), block);
  Value magnitude = buildMagnitudes(builder, loc, value);
  SmallVector<int64_t> padded = blocks.padded(), axes;
  if (padded != type.getShape()) {
    SmallVector<int64_t> none(type.getRank(), 0), high;
    for (auto [wide, extent] : llvm::zip_equal(padded, type.getShape()))
      high.push_back(wide - extent);
    magnitude = stablehlo::PadOp::create(
        builder, loc, magnitude, stablehlo::buildScalar(builder, loc, 0.0f),
        none, high, none);
  }
  SmallVector<int64_t> shape = blocks.split(axes);
  // Empty axes would reduce all elements to one scale.
  if (axes.empty()) {
    axes.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(1);
  }
  Value scales =
      buildRowAmaxScales(builder, loc, reshape(builder, loc, magnitude, shape),
                         format, margin, axes);
  return reshape(builder, loc, scales, blocks.counts);
}

Value scalify::spreadBlockScales(OpBuilder &builder, Location loc, Value scales,
                                 ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> block) {
  Blocks blocks(shape, block);
  SmallVector<int64_t> axes, dims;
  SmallVector<int64_t> split = blocks.split(axes), padded = blocks.padded();
  for (int64_t dim : llvm::seq<int64_t>(0, split.size()))
    if (!llvm::is_contained(axes, dim))
      dims.push_back(dim);
  auto type = cast<RankedTensorType>(scales.getType());
  Value spread = scales;
  if (!axes.empty())
    spread = stablehlo::BroadcastInDimOp::create(
        builder, loc, type.clone(split), scales, dims);
  spread = reshape(builder, loc, spread, padded);
  if (padded == shape)
    return spread;
  return stablehlo::SliceOp::create(builder, loc, spread, shape);
}
