//===- BlockSizes.h - The blocks of a dot's operand -------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_BLOCKSIZES_H
#define SCALIFY_LIB_PRECISION_BLOCKSIZES_H

#include "scalify/Dialect/Scalify/Scalify.h"

namespace scalify {

/// The size of the blocks of an operand of a dot, by its dimensions: the
/// recipe's for weights where `value` is one. Null where the recipe has one
/// scale per tensor, and for convolutions.
mlir::DenseI64ArrayAttr getBlockSizes(mlir::Operation *dot, unsigned operand,
                                      mlir::Value value, RecipeAttr recipe);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_BLOCKSIZES_H
