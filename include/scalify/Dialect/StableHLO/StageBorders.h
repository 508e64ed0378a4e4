//===- StageBorders.h - Where a pipeline may be cut -------------*- C++ -*-===//
//
// A border is a barrier that nothing looks through: what crosses it goes from
// one stage of a pipeline to the next, in the gradient the other way round.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_STABLEHLO_STAGEBORDERS_H
#define SCALIFY_DIALECT_STABLEHLO_STAGEBORDERS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify::stablehlo {

/// On an `optimization_barrier`: "forward" or, of a gradient, "backward".
inline constexpr llvm::StringLiteral kStageBorderAttr = "scalify.stage_border";

inline bool isStageBorder(mlir::Operation *op) {
  return llvm::isa_and_present<OptimizationBarrierOp>(op) &&
         op->hasAttr(kStageBorderAttr);
}

/// A barrier that is none: what it holds back is what it gives.
inline bool isPlainBarrier(mlir::Operation *op) {
  return llvm::isa_and_present<OptimizationBarrierOp>(op) &&
         !op->hasAttr(kStageBorderAttr);
}

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_STAGEBORDERS_H
