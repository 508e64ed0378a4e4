//===- WindowDims.h - Dimensions that windows leave alone -------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_WINDOWDIMS_H
#define SCALIFY_LIB_DISTRIBUTION_WINDOWDIMS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// True if a list is absent or has its default, 1, for a dimension.
inline bool isOne(std::optional<llvm::ArrayRef<int64_t>> list, int64_t dim) {
  return !list || (*list)[dim] == 1;
}

inline bool isUnpadded(std::optional<mlir::DenseIntElementsAttr> padding,
                       int64_t dim) {
  if (!padding)
    return true;
  auto edges = padding->getValues<int64_t>();
  return edges[2 * dim] == 0 && edges[2 * dim + 1] == 0;
}

/// True if each window is one element along a dimension, in its place: an index
/// of the result reads that index of the operand.
inline bool isKept(stablehlo::ReduceWindowOp op, int64_t dim) {
  return op.getWindowDimensions()[dim] == 1 &&
         isOne(op.getWindowStrides(), dim) &&
         isOne(op.getBaseDilations(), dim) && isUnpadded(op.getPadding(), dim);
}

inline bool isKept(stablehlo::SelectAndScatterOp op, int64_t dim) {
  return isOne(op.getWindowDimensions(), dim) &&
         isOne(op.getWindowStrides(), dim) && isUnpadded(op.getPadding(), dim);
}

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_WINDOWDIMS_H
