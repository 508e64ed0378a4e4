//===- Blocks.h - Expand block-scaled casts into arithmetic -----*- C++ -*-===//

#ifndef SCALIFY_PRECISION_BLOCKS_H
#define SCALIFY_PRECISION_BLOCKS_H

#include "scalify/Dialect/Scalify/Scalify.h"

namespace scalify {

/// Expands casts with a scale per block into multiplications by the scales and
/// casts with scale 1. With `keepDequantized`, leaves dequantize ops alone.
void expandBlocks(mlir::Operation *scope, bool keepDequantized = false);

} // namespace scalify

#endif // SCALIFY_PRECISION_BLOCKS_H
