//===- Stacks.h - How pieces of a stack lie in memory -----------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_STACKS_H
#define SCALIFY_LIB_FUSION_STACKS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/StringRef.h"

namespace scalify {

/// On a concatenation: its pieces lie one behind the other in memory, and what
/// computes a piece writes it there.
inline constexpr llvm::StringLiteral kStackAttr = "plan.stack";

/// Concatenates pieces as memory wants it: marked, where they can be computed
/// in place, and else a few at a time.
mlir::Value stackPieces(mlir::OpBuilder &b, mlir::Location loc,
                        mlir::RankedTensorType whole,
                        mlir::ArrayRef<mlir::Value> pieces, int64_t dim);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_STACKS_H
