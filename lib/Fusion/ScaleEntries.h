//===- ScaleEntries.h - Scales of casts in a plan ---------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_SCALEENTRIES_H
#define SCALIFY_LIB_FUSION_SCALEENTRIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// Replaces scales that are entries of the argument of scales by their initial
/// values as constants, marks the casts with the entries, and merges equal
/// constant scales. So a step has the same plan, and computes the same bits,
/// whether its scales are constants or an argument.
void shareScales(mlir::func::FuncOp function);

/// Returns the index of the argument that holds the scales of casts, or -1.
int64_t findScalesArgument(mlir::func::FuncOp function);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_SCALEENTRIES_H
