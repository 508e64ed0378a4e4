//===- JoinStacks.h - Join stacks that are written in pieces ----*- C++ -*-===//

#ifndef SCALIFY_IMPORT_JOINSTACKS_H
#define SCALIFY_IMPORT_JOINSTACKS_H

#include "scalify/Import/StaticIndices.h"

#include <functional>

namespace scalify {

/// Builds one value from pieces that are adjacent along a dimension.
using JoinPieces = std::function<mlir::Value(
    mlir::OpBuilder &, mlir::Location, mlir::RankedTensorType whole,
    mlir::ArrayRef<mlir::Value> pieces, int64_t dim)>;

/// Joins the pieces by one concatenation.
mlir::Value concatenatePieces(mlir::OpBuilder &b, mlir::Location loc,
                              mlir::RankedTensorType whole,
                              mlir::ArrayRef<mlir::Value> pieces, int64_t dim);

/// Replaces each chain of updates at known indices by one join of the updates
/// and of slices of the original value. Returns the number of chains.
unsigned joinStacks(mlir::Block &block, IndexFolder &folder,
                    const JoinPieces &joinPieces);

} // namespace scalify

#endif // SCALIFY_IMPORT_JOINSTACKS_H
