//===- JoinStacks.h - Tensors that are written piece by piece ---*- C++ -*-===//

#ifndef SCALIFY_IMPORT_JOINSTACKS_H
#define SCALIFY_IMPORT_JOINSTACKS_H

#include "scalify/Import/StaticIndices.h"

#include "llvm/ADT/StringRef.h"

namespace scalify {

/// On a concatenation: its pieces lie one behind the other in memory, and what
/// computes a piece writes it there.
inline constexpr llvm::StringLiteral kStackAttr = "plan.stack";

/// Joins what a chain of updates at known places writes: a concatenation of
/// the updates, and of slices of what they leave. `forPlan` sees to what memory
/// wants: it marks those whose pieces can be computed in place, and joins
/// others by a few at a time. Returns how many chains there were.
unsigned joinStacks(mlir::Block &block, IndexFolder &folder, bool forPlan);

} // namespace scalify

#endif // SCALIFY_IMPORT_JOINSTACKS_H
