//===- RescaleFunction.h - Moves scales between steps -----------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_RESCALEFUNCTION_H
#define SCALIFY_PRECISION_RESCALEFUNCTION_H

#include "mlir/IR/BuiltinOps.h"

namespace scalify {

/// What @rescale knows of one cast.
struct CountedCast {
  /// On all ranks whose counts are added.
  int64_t elements = 0;
  /// Whether the cast reads its entry of the scales.
  bool moves = false;
};

/// Appends `@rescale(scales, counters) -> scales` to the module, with one
/// entry, and one row of counts, for each cast.
void buildRescaleFunction(mlir::ModuleOp module,
                          llvm::ArrayRef<CountedCast> casts);

} // namespace scalify

#endif // SCALIFY_PRECISION_RESCALEFUNCTION_H
