//===- DotCost.cpp - A cost model of dots in FP8 and BF16 -----------------===//

#include "DotCost.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace scalify;

static int64_t getSize(RankedTensorType type, ArrayRef<int64_t> dims) {
  int64_t size = 1;
  for (int64_t dim : dims)
    size *= type.getDimSize(dim);
  return size;
}

/// Returns the microseconds of a dot whose operands have `width` bytes per
/// element.
static double getTime(const TargetInfo &gpu, const DotCost &dot,
                      int64_t width) {
  int64_t tiles = dot.batch * llvm::divideCeil(dot.m, gpu.tile) *
                  llvm::divideCeil(dot.n, gpu.tile);
  double flops = 2.0 * gpu.tile * gpu.tile * dot.k *
                 llvm::alignTo(tiles, static_cast<uint64_t>(gpu.processors));
  double bytes = static_cast<double>(dot.batch) *
                 (width * dot.k * static_cast<double>(dot.m + dot.n) +
                  2.0 * dot.m * dot.n);
  double rate = width == 1 ? gpu.flops.bits8 : gpu.flops.bits16;
  return std::max({gpu.call, flops / rate, bytes / gpu.bandwidth}) / 1e3;
}

static double getTime(const TargetInfo &gpu, const CastCost &cast,
                      ScaleSource scales) {
  bool isMeasured =
      scales == ScaleSource::Current || scales == ScaleSource::Block;
  double passes = scales == ScaleSource::Current ? 2 : 1;
  double byte = static_cast<double>(cast.elements) / gpu.bandwidth;
  double shared = 0;
  if (isMeasured || cast.isArgument)
    shared = passes * (gpu.launch + 2 * byte);
  return (shared / std::max(cast.readers, 1u) + byte) / 1e3;
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
  const TargetInfo &gpu = findTarget(TargetAttr::of(dot).formats)->getInfo();
  cost.bfloat16 = getTime(gpu, cost, /*width=*/2);
  cost.float8 = getTime(gpu, cost, /*width=*/1);
  for (const CastCost &cast : casts)
    cost.float8 += getTime(gpu, cast, scales);
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
