//===- NarrowWork.h - The narrow share of a step's work ---------*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_NARROWWORK_H
#define SCALIFY_PIPELINE_NARROWWORK_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace scalify {

/// Returns the floating-point operations of a dot or a convolution, multiplied
/// by the trip counts of all enclosing loops whose trip count is known.
double countWork(mlir::Operation *dot);

/// Returns a one-line warning if less than half of the work of main's products
/// is narrow: how many products are wide, why, and what would cast them.
/// Returns an empty string otherwise. The count omits products that the program
/// or the recipe's author keeps wide, by name or by a part that differs from
/// the preset's. Without a backward it also omits products that the preset
/// keeps wide by role, except convolutions, which count wherever linear layers
/// are cast. Call it after Precision.
std::string describeWideWork(mlir::ModuleOp module);

} // namespace scalify

#endif // SCALIFY_PIPELINE_NARROWWORK_H
