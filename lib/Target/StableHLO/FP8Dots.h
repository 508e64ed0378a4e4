//===- FP8Dots.h - Forms of a dot on FP8 data -------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_TARGET_STABLEHLO_FP8DOTS_H
#define SCALIFY_LIB_TARGET_STABLEHLO_FP8DOTS_H

#include "scalify/Target/StableHLO/Passes.h"

#include "mlir/IR/Operation.h"

namespace scalify {

/// Rewrites every dot under `root` with dequantized FP8 operands to `form`. The
/// dequantizes are dead afterwards unless they have other uses. `Wide` changes
/// nothing.
void writeFP8Dots(mlir::Operation *root, FP8Form form);

} // namespace scalify

#endif // SCALIFY_LIB_TARGET_STABLEHLO_FP8DOTS_H
