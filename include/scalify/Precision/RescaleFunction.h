//===- RescaleFunction.h - Build the function @rescale ----------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_RESCALEFUNCTION_H
#define SCALIFY_PRECISION_RESCALEFUNCTION_H

#include "mlir/IR/BuiltinOps.h"

namespace scalify {

/// The properties of a cast that @rescale depends on.
struct CountedCast {
  /// Elements on all ranks whose counts are added.
  int64_t elements = 0;
  /// True if the cast reads its entry of the scales.
  bool moves = false;
};

/// Appends `@rescale(scales, counters) -> scales` to the module. Each cast has
/// an entry of the scales and a row of the counters.
void buildRescaleFunction(mlir::ModuleOp module,
                          llvm::ArrayRef<CountedCast> casts);

} // namespace scalify

#endif // SCALIFY_PRECISION_RESCALEFUNCTION_H
