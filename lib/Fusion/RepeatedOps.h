//===- RepeatedOps.h - Ops that compute what another has --------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_REPEATEDOPS_H
#define SCALIFY_LIB_FUSION_REPEATEDOPS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Value.h"

#include "llvm/ADT/SmallVector.h"

#include <utility>

namespace scalify {

/// Lets what reads a value that is computed again read the first one, for as
/// long as a pattern is looked for. The backward repeats ops to hold less in
/// memory, also on operands that were rounded to be kept: an attention of a
/// library does neither.
class RepeatedOps {
public:
  explicit RepeatedOps(mlir::Block &block) : block(block) {}

  /// What reads a repetition of `value` in the block reads `value`.
  void merge(mlir::Value value);
  /// What read a repetition reads it again.
  void undo();
  bool empty() const { return moved.empty(); }

private:
  mlir::Block &block;
  llvm::SmallVector<std::pair<mlir::OpOperand *, mlir::Value>> moved;
};

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_REPEATEDOPS_H
