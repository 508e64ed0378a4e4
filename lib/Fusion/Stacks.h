//===- Stacks.h - Memory layout of stacks -----------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_STACKS_H
#define SCALIFY_LIB_FUSION_STACKS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/StringRef.h"

namespace scalify {

/// Concatenates pieces: in one op, marked, if they can be computed in place;
/// else a few at a time.
mlir::Value stackPieces(mlir::OpBuilder &b, mlir::Location loc,
                        mlir::RankedTensorType whole,
                        mlir::ArrayRef<mlir::Value> pieces, int64_t dim);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_STACKS_H
