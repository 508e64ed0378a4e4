//===- DotCost.cpp - What FP8 costs and saves a dot -----------------------===//

#include "DotCost.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace scalify;

// Per microsecond.
static constexpr double kBytes = 3.0e6, kFlops = 0.8 * 989.4e6;
static constexpr double kLaunch = 4, kCastLaunch = 2;
static constexpr int64_t kTile = 128, kProcessors = 132;

static int64_t getSize(RankedTensorType type, ArrayRef<int64_t> dims) {
  int64_t size = 1;
  for (int64_t dim : dims)
    size *= type.getDimSize(dim);
  return size;
}

/// `width`: bytes of an operand's element.
static double getTime(const DotCost &dot, int64_t width) {
  int64_t tiles = dot.batch * llvm::divideCeil(dot.m, kTile) *
                  llvm::divideCeil(dot.n, kTile);
  double flops =
      2.0 * kTile * kTile * dot.k * llvm::alignTo(tiles, kProcessors);
  double bytes = static_cast<double>(dot.batch) *
                 (width * dot.k * static_cast<double>(dot.m + dot.n) +
                  2.0 * dot.m * dot.n);
  double rate = width == 1 ? 2 * kFlops : kFlops;
  return std::max({kLaunch, flops / rate, bytes / kBytes});
}

static double getTime(const CastCost &cast, ScaleSource scales) {
  bool isMeasured =
      scales == ScaleSource::Current || scales == ScaleSource::Block;
  double passes = scales == ScaleSource::Current ? 2 : 1;
  double shared = 0;
  if (isMeasured || cast.isArgument)
    shared = passes * (kCastLaunch + 2 * cast.elements / kBytes);
  return shared / std::max(cast.readers, 1u) + cast.elements / kBytes;
}

DotCost scalify::estimateCost(stablehlo::DotGeneralOp dot, ScaleSource scales,
                              ArrayRef<CastCost> casts) {
  auto dims = dot.getDotDimensionNumbers();
  auto lhs = cast<RankedTensorType>(dot.getLhs().getType());
  auto rhs = cast<RankedTensorType>(dot.getRhs().getType());
  DotCost cost;
  cost.batch = getSize(lhs, dims.getLhsBatchingDimensions());
  cost.k = getSize(lhs, dims.getLhsContractingDimensions());
  int64_t rest = std::max<int64_t>(cost.batch * cost.k, 1);
  cost.m = lhs.getNumElements() / rest;
  cost.n = rhs.getNumElements() / rest;
  cost.bfloat16 = getTime(cost, /*width=*/2);
  cost.float8 = getTime(cost, /*width=*/1);
  for (const CastCost &cast : casts)
    cost.float8 += getTime(cast, scales);
  return cost;
}

std::string DotCost::describe() const {
  std::string size = llvm::formatv("{0} x {1} x {2}", m, n, k);
  if (batch != 1)
    size = llvm::formatv("{0} times {1}", batch, size);
  return llvm::formatv(
      "{0} takes {1:f1} us in FP8, casts included, and {2:f1} us in BF16", size,
      float8, bfloat16);
}
