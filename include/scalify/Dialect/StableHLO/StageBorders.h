//===- StageBorders.h - Borders between pipeline stages ---------*- C++ -*-===//
//
// A border is a barrier that no analysis looks through: values that cross it go
// from one stage of a pipeline to the next; gradients go the other way.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_STABLEHLO_STAGEBORDERS_H
#define SCALIFY_DIALECT_STABLEHLO_STAGEBORDERS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify::stablehlo {

/// On an `optimization_barrier`: "forward" or, for a gradient, "backward".
inline constexpr llvm::StringLiteral kStageBorderAttr = "scalify.stage_border";

inline bool isStageBorder(mlir::Operation *op) {
  return llvm::isa_and_present<OptimizationBarrierOp>(op) &&
         op->hasAttr(kStageBorderAttr);
}

/// True for a barrier that is not a border: its results are its operands.
inline bool isPlainBarrier(mlir::Operation *op) {
  return llvm::isa_and_present<OptimizationBarrierOp>(op) &&
         !op->hasAttr(kStageBorderAttr);
}

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_STAGEBORDERS_H
