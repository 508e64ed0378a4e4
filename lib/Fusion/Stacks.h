//===- Stacks.h - Tensors that are written piece by piece -------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_STACKS_H
#define SCALIFY_LIB_FUSION_STACKS_H

#include "StaticIndices.h"

#include "llvm/ADT/StringRef.h"

namespace scalify {

/// On a concatenation: its pieces lie one behind the other in memory, and what
/// computes a piece writes it there.
inline constexpr llvm::StringLiteral kStackAttr = "plan.stack";

/// Joins what a chain of updates at known places writes: a concatenation of
/// the updates, and of slices of what they leave.
/// Returns how many chains there were.
unsigned joinStacks(mlir::Block &block, IndexFolder &folder);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_STACKS_H
