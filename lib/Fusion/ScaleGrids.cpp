//===- ScaleGrids.cpp - Operands of dots with many scales -----------------===//
//
// cuBLASLt on Hopper takes one scale per row, per 128 elements along the
// contracting dimension, or per 128 x 128 block, in its own layouts. This file
// maps a recipe's blocks to the matrix of a GEMM, chooses one of these
// granularities, and copies scales to its layout.
//
//===----------------------------------------------------------------------===//

#include "ScaleGrids.h"

#include "StridedView.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Precision/MeasuredScale.h"

using namespace mlir;
using namespace scalify;
using plan::Scaling;

//===----------------------------------------------------------------------===//
// From blocks to grids
//===----------------------------------------------------------------------===//

/// Returns the number of elements that share a scale along `dims`, collapsed
/// into one dimension; none if blocks are not contiguous there.
static std::optional<int64_t> getGrain(ArrayRef<int64_t> shape,
                                       ArrayRef<int64_t> block,
                                       ArrayRef<int64_t> dims) {
  int64_t grain = 1;
  bool isCut = false; // by an inner dimension
  for (size_t i = dims.size(); i-- > 0;) {
    int64_t extent = shape[dims[i]], size = block[dims[i]];
    if (extent == 1)
      continue;
    if (size == 0 || size > extent)
      size = extent;
    if (isCut && size != 1)
      return std::nullopt;
    // A partial last block would be followed by the next row's first one.
    bool isOutermost = llvm::all_of(dims.take_front(i),
                                    [&](int64_t d) { return shape[d] == 1; });
    if (extent % size && !isOutermost)
      return std::nullopt;
    if (!isCut)
      grain *= size;
    isCut |= size != extent;
  }
  return grain;
}

static int64_t extentOf(ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  int64_t extent = 1;
  for (int64_t d : dims)
    extent *= shape[d];
  return extent;
}

std::optional<ScaleGrid> scalify::getScaleGrid(Value scale,
                                               ArrayRef<int64_t> shape,
                                               ArrayRef<int64_t> block,
                                               ArrayRef<int64_t> free,
                                               ArrayRef<int64_t> sum) {
  std::optional<int64_t> rowGrain = getGrain(shape, block, free);
  std::optional<int64_t> columnGrain = getGrain(shape, block, sum);
  if (!rowGrain || !columnGrain)
    return std::nullopt;
  ScaleGrid grid;
  grid.scale = scale;
  llvm::append_range(grid.order, free);
  llvm::append_range(grid.order, sum);
  grid.rows = extentOf(shape, free);
  grid.columns = extentOf(shape, sum);
  grid.rowGrain = *rowGrain;
  grid.columnGrain = *columnGrain;
  return grid;
}

//===----------------------------------------------------------------------===//
// From grids to scalings
//===----------------------------------------------------------------------===//

SmallVector<int64_t> scalify::getBlock(Scaling scaling) {
  switch (scaling) {
  case Scaling::Tensor:
    return {0, 0};
  case Scaling::Rows:
    return {1, 0};
  case Scaling::Vectors:
    return {1, plan::kScaleBlock};
  case Scaling::Blocks:
    return {plan::kScaleBlock, plan::kScaleBlock};
  }
  llvm_unreachable("unknown scaling");
}

/// Returns the number of blocks of `size` along one side; 0 if a block would
/// span several scales.
static int64_t countBlocks(int64_t extent, int64_t grain, int64_t size) {
  if (size == 0)
    size = extent;
  bool isWhole = grain >= extent;
  return isWhole || grain % size == 0 ? llvm::divideCeil(extent, size) : 0;
}

/// The alignment of the number of rows of an operand scaled by blocks.
static constexpr int64_t kRowMultiple = 4;

/// Returns the number of scales of the operand under `scaling`; 0 if it does
/// not fit.
static int64_t countScales(const ScaleGrid &grid, Scaling scaling) {
  SmallVector<int64_t> block = getBlock(scaling);
  bool isByBlocks = scaling == Scaling::Vectors || scaling == Scaling::Blocks;
  if (isByBlocks && grid.rows % kRowMultiple != 0)
    return 0;
  return countBlocks(grid.rows, grid.rowGrain, block[0]) *
         countBlocks(grid.columns, grid.columnGrain, block[1]);
}

std::optional<std::pair<Scaling, Scaling>>
scalify::chooseScalings(const ScaleGrid &a, const ScaleGrid &b) {
  // Scales by rows multiply the finished sums.
  if (countScales(a, Scaling::Rows) && countScales(b, Scaling::Rows))
    return std::pair(Scaling::Rows, Scaling::Rows);
  static constexpr std::pair<Scaling, Scaling> kPairs[] = {
      {Scaling::Vectors, Scaling::Blocks},
      {Scaling::Blocks, Scaling::Vectors},
      {Scaling::Vectors, Scaling::Vectors}};
  std::optional<std::pair<Scaling, Scaling>> best;
  int64_t fewest = 0;
  for (auto [x, y] : kPairs) {
    int64_t left = countScales(a, x), right = countScales(b, y);
    if (left == 0 || right == 0 || (best && left + right >= fewest))
      continue;
    best = {x, y};
    fewest = left + right;
  }
  return best;
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

static Value reshape(OpBuilder &b, Value value, ArrayRef<int64_t> shape) {
  if (typeOf(value).getShape() == shape)
    return value;
  return stablehlo::ReshapeOp::create(b, value.getLoc(), value, shape);
}

static Value transpose(OpBuilder &b, Value value, ArrayRef<int64_t> order) {
  return stablehlo::TransposeOp::create(b, value.getLoc(), value, order);
}

/// Returns the scales as a matrix with one for each block; repeats a scale that
/// covers several blocks.
static Value spread(const ScaleGrid &grid, ArrayRef<int64_t> block,
                    OpBuilder &b) {
  int64_t extents[] = {grid.rows, grid.columns};
  int64_t grains[] = {grid.rowGrain, grid.columnGrain};
  SmallVector<int64_t> have, want, each;
  for (auto [extent, grain, size] : llvm::zip_equal(extents, grains, block)) {
    have.push_back(llvm::divideCeil(extent, grain));
    want.push_back(llvm::divideCeil(extent, size ? size : extent));
    each.push_back(have.back() == 1 ? 0 : size ? grain / size : 1);
  }
  Value scale = grid.scale;
  if (typeOf(scale).getRank() != 0)
    scale = transpose(b, scale, grid.order);
  scale = reshape(b, scale, have);
  return have == want ? scale
                      : spreadBlockScales(b, scale.getLoc(), scale, want, each);
}

/// True if memory holds exactly [rows, columns] with these strides.
static bool hasStrides(const StridedView &view, int64_t rowStride,
                       int64_t columnStride, int64_t count) {
  auto isStride = [](Dim dim, int64_t stride) {
    return dim.size == 1 || dim.stride == stride;
  };
  return view.offset == 0 && typeOf(view.base).getNumElements() == count &&
         isStride(view.dims[0], rowStride) &&
         isStride(view.dims[1], columnStride);
}

Value scalify::layOut(const ScaleGrid &grid, Scaling scaling, OpBuilder &b) {
  Value scales = spread(grid, getBlock(scaling), b);
  int64_t rows = typeOf(scales).getDimSize(0);
  int64_t columns = typeOf(scales).getDimSize(1);
  int64_t count = plan::countScales(scaling, grid.rows, grid.columns);
  bool isTurned = scaling == Scaling::Vectors;
  int64_t width = count / rows; // of a row in memory, padding included
  // A broadcast has no memory of its own.
  bool isSpread = isa_and_nonnull<stablehlo::BroadcastInDimOp>(
      StridedView::of(scales).base.getDefiningOp());
  if (!isSpread && hasStrides(StridedView::of(scales), isTurned ? 1 : width,
                              isTurned ? rows : 1, count))
    return scales;
  Value copy;
  if (width != columns) {
    auto zero = stablehlo::buildScalar(b, scales.getLoc(), 0.0f);
    SmallVector<int64_t> none{0, 0}, high{0, width - columns};
    copy = stablehlo::PadOp::create(b, scales.getLoc(), scales, zero, none,
                                    high, none);
  } else {
    SmallVector<int64_t> order{isTurned ? 1 : 0, isTurned ? 0 : 1};
    copy = transpose(b, scales, order);
  }
  copy.getDefiningOp()->setAttr(plan::kMaterialiseAttr, b.getUnitAttr());
  if (Operation *maker = grid.scale.getDefiningOp())
    copyPhase(maker, copy.getDefiningOp());
  if (isTurned)
    return transpose(b, copy, {1, 0});
  if (width == columns)
    return copy;
  return stablehlo::SliceOp::create(b, scales.getLoc(), copy,
                                    typeOf(scales).getShape());
}
