//===- RepeatedOps.h - Ops that repeat another one --------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_REPEATEDOPS_H
#define SCALIFY_LIB_FUSION_REPEATEDOPS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Value.h"

#include "llvm/ADT/SmallVector.h"

#include <utility>

namespace scalify {

/// Redirects uses of repeated ops to the first one while a pattern is matched.
/// The backward repeats ops to save memory, also on operands that were rounded
/// to be saved; a library attention needs neither.
class RepeatedOps {
public:
  explicit RepeatedOps(mlir::Block &block) : block(block) {}

  /// Makes the users of repetitions of `value` in the block read `value`.
  void merge(mlir::Value value);
  /// Restores the original operands.
  void undo();
  bool empty() const { return moved.empty(); }

private:
  mlir::Block &block;
  llvm::SmallVector<std::pair<mlir::OpOperand *, mlir::Value>> moved;
};

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_REPEATEDOPS_H
