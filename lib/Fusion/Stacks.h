//===- Stacks.h - Memory layout of stacks -----------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_STACKS_H
#define SCALIFY_LIB_FUSION_STACKS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/StringRef.h"

namespace scalify {

/// On a concatenation: its pieces are contiguous in memory, and their producers
/// write them there.
inline constexpr llvm::StringLiteral kStackAttr = "plan.stack";

/// Concatenates pieces: in one op, marked, if they can be computed in place;
/// else a few at a time.
mlir::Value stackPieces(mlir::OpBuilder &b, mlir::Location loc,
                        mlir::RankedTensorType whole,
                        mlir::ArrayRef<mlir::Value> pieces, int64_t dim);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_STACKS_H
