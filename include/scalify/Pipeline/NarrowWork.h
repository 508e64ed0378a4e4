//===- NarrowWork.h - How much of a step's work is narrow -------*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_NARROWWORK_H
#define SCALIFY_PIPELINE_NARROWWORK_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace scalify {

/// The floating-point operations of a dot or a convolution, each trip of the
/// loops around it counted, where their number is known.
double countWork(mlir::Operation *dot);

/// One line where less than half of the work of main's products is done on
/// narrow data: how many products, why, and what would cast them. Empty
/// otherwise. What the program or the recipe's author asked to be wide, by name
/// or by a part that is another than the preset's, is not counted. Without a
/// backward nor is what the preset keeps wide by role, but convolutions, which
/// are counted wherever linear layers are cast. Call it behind Precision.
std::string describeWideWork(mlir::ModuleOp module);

} // namespace scalify

#endif // SCALIFY_PIPELINE_NARROWWORK_H
