//===- ExportRandomBits.h - Random words in StableHLO -----------*- C++ -*-===//

#ifndef SCALIFY_LIB_TARGET_STABLEHLO_EXPORTRANDOMBITS_H
#define SCALIFY_LIB_TARGET_STABLEHLO_EXPORTRANDOMBITS_H

#include "scalify/Dialect/Scalify/Scalify.h"

namespace scalify {

/// Emits Threefry as integer ops on tensors of the result's shape.
void exportRandomBits(RandomBitsOp op);

} // namespace scalify

#endif // SCALIFY_LIB_TARGET_STABLEHLO_EXPORTRANDOMBITS_H
