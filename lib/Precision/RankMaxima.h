//===- RankMaxima.h - What all ranks have measured --------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_RANKMAXIMA_H
#define SCALIFY_LIB_PRECISION_RANKMAXIMA_H

#include "mlir/IR/Builders.h"

namespace scalify {

/// Builds the maximum of `value` over all devices where the function is the
/// program of one device of a mesh; else returns `value`. What a device
/// measures of its parts becomes what all of them keep for the next step.
mlir::Value buildMaxOverRanks(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value value);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_RANKMAXIMA_H
