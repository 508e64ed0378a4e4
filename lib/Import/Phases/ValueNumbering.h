//===- ValueNumbering.h - Value numbering through barriers ------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PHASES_VALUENUMBERING_H
#define SCALIFY_LIB_IMPORT_PHASES_VALUENUMBERING_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

#include "llvm/ADT/DenseMap.h"

namespace scalify::import {

/// Finds ops of a block that compute equal values. A result of
/// `stablehlo.optimization_barrier` equals its operand, so that a recomputed op
/// equals the original op.
class ValueNumbering {
public:
  explicit ValueNumbering(mlir::Block &block);

  /// Returns the first op of the block that computes the same values as `op`,
  /// which may be `op` itself.
  mlir::Operation *getLeader(mlir::Operation *op) const {
    return leaders.lookup(op);
  }

private:
  mlir::Value getLeader(mlir::Value value) const;
  bool isEqual(mlir::Operation *lhs, mlir::Operation *rhs) const;

  llvm::DenseMap<mlir::Operation *, mlir::Operation *> leaders;
};

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_PHASES_VALUENUMBERING_H
