//===- ValueNumbering.h - Equal values despite barriers ---------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PHASES_VALUENUMBERING_H
#define SCALIFY_LIB_IMPORT_PHASES_VALUENUMBERING_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

#include "llvm/ADT/DenseMap.h"

namespace scalify::import {

/// Finds ops of a block that compute the same values. A result of
/// `stablehlo.optimization_barrier` is the operand that it holds back, so a
/// recomputed op equals the op that was computed first.
class ValueNumbering {
public:
  explicit ValueNumbering(mlir::Block &block);

  /// The first op of the block that computes what `op` computes: maybe `op`.
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
