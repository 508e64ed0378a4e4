//===- Blocks.h - Casts by blocks as casts of scaled values -----*- C++ -*-===//

#ifndef SCALIFY_PRECISION_BLOCKS_H
#define SCALIFY_PRECISION_BLOCKS_H

#include "scalify/Dialect/Scalify/Scalify.h"

namespace scalify {

/// Writes casts that have a scale for each block as products, and casts of
/// those by 1. With `keepDequantized` narrow data that is read wide stays as it
/// is.
void expandBlocks(mlir::Operation *scope, bool keepDequantized = false);

} // namespace scalify

#endif // SCALIFY_PRECISION_BLOCKS_H
