//===- UniformValues.h - Values that are the same on all ranks --*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_UNIFORMVALUES_H
#define SCALIFY_LIB_DISTRIBUTION_UNIFORMVALUES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Value.h"

namespace scalify {

/// True if the value is provably the same on all members of each group, by its
/// definition in a device's program. Nothing is cached between calls, since
/// programs change between them.
bool isUniform(mlir::Value value, mlir::DenseIntElementsAttr groups);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_UNIFORMVALUES_H
