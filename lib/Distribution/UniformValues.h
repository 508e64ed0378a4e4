//===- UniformValues.h - What ranks have alike ------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_UNIFORMVALUES_H
#define SCALIFY_LIB_DISTRIBUTION_UNIFORMVALUES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace scalify {

/// Says of values of a device's program which ones the ranks of a group are
/// seen to have alike, by what they are made of.
class UniformValues {
public:
  /// Whether the members of each of these groups have the same value.
  bool isUniform(mlir::Value value, mlir::DenseIntElementsAttr groups);

private:
  bool find(mlir::Value value, mlir::DenseIntElementsAttr groups);
  bool isUniform(mlir::Operation *op, mlir::DenseIntElementsAttr groups);

  llvm::DenseMap<std::pair<mlir::Value, mlir::Attribute>, bool> known;
};

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_UNIFORMVALUES_H
