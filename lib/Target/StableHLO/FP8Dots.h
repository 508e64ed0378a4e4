//===- FP8Dots.h - The forms of a dot on FP8 data ---------------*- C++ -*-===//

#ifndef SCALIFY_LIB_TARGET_STABLEHLO_FP8DOTS_H
#define SCALIFY_LIB_TARGET_STABLEHLO_FP8DOTS_H

#include "scalify/Target/StableHLO/Passes.h"

#include "mlir/IR/Operation.h"

namespace scalify {

/// Writes every dot under `root` whose operands are dequantized FP8 data in
/// `form`. The dequantizes it leaves behind are dead where nothing else reads
/// them. `Wide` changes nothing.
void writeFP8Dots(mlir::Operation *root, FP8Form form);

} // namespace scalify

#endif // SCALIFY_LIB_TARGET_STABLEHLO_FP8DOTS_H
