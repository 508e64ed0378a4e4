//===- BlockSizes.h - Block sizes of a dot's operand ------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_BLOCKSIZES_H
#define SCALIFY_LIB_PRECISION_BLOCKSIZES_H

#include "scalify/Dialect/Scalify/Scalify.h"

namespace scalify {

/// Returns the block size of a dot's operand along each dimension: the recipe's
/// `weight_block` if `value` is a weight, else its `block`. Null if the recipe
/// has one scale per tensor, and for convolutions.
mlir::DenseI64ArrayAttr getBlockSizes(mlir::Operation *dot, unsigned operand,
                                      mlir::Value value, RecipeAttr recipe);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_BLOCKSIZES_H
