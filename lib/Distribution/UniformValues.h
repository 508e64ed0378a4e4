//===- UniformValues.h - What ranks have alike ------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_UNIFORMVALUES_H
#define SCALIFY_LIB_DISTRIBUTION_UNIFORMVALUES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Value.h"

namespace scalify {

/// Whether the members of each of these groups of ranks are seen to have the
/// same value, by what it is made of in a device's program. It is found anew
/// each time: programs change between one question and the next.
bool isUniform(mlir::Value value, mlir::DenseIntElementsAttr groups);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_UNIFORMVALUES_H
