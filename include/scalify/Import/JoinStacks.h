//===- JoinStacks.h - Tensors that are written piece by piece ---*- C++ -*-===//

#ifndef SCALIFY_IMPORT_JOINSTACKS_H
#define SCALIFY_IMPORT_JOINSTACKS_H

#include "scalify/Import/StaticIndices.h"

#include <functional>

namespace scalify {

/// Makes one value of pieces that lie one behind the other along a dimension.
using JoinPieces = std::function<mlir::Value(
    mlir::OpBuilder &, mlir::Location, mlir::RankedTensorType whole,
    mlir::ArrayRef<mlir::Value> pieces, int64_t dim)>;

/// As one concatenation.
mlir::Value concatenatePieces(mlir::OpBuilder &b, mlir::Location loc,
                              mlir::RankedTensorType whole,
                              mlir::ArrayRef<mlir::Value> pieces, int64_t dim);

/// Joins what a chain of updates at known places writes: the updates, and
/// slices of what they leave. Returns how many chains there were.
unsigned joinStacks(mlir::Block &block, IndexFolder &folder,
                    const JoinPieces &joinPieces);

} // namespace scalify

#endif // SCALIFY_IMPORT_JOINSTACKS_H
