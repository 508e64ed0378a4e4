//===- PieceSums.h - Sums over ranks, a piece per rank ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_PIECESUMS_H
#define SCALIFY_LIB_DISTRIBUTION_PIECESUMS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Builders.h"

namespace scalify {

/// Builds a sum over ranks, at its op, as an all-to-all after which each rank
/// sums its piece.
class PieceSums {
public:
  /// Builds the sum along the first dimension, which holds the ranks' parts in
  /// group order.
  using SumParts =
      llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Value parts)>;

  /// All groups of `op` have the same size.
  PieceSums(mlir::Operation *op, SumParts sumParts);

  /// Builds an all-reduce: each rank sums a piece, and the pieces are
  /// all-gathered. Pads with zeros if the ranks do not divide the size.
  mlir::Value all(mlir::Value value);
  /// Builds an all-reduce in which each rank all-gathers and sums everything:
  /// one message instead of two.
  mlir::Value gathered(mlir::Value value);
  /// Builds a reduce-scatter along a dimension.
  mlir::Value scatter(mlir::Value value, int64_t dim);

private:
  mlir::Value gather(mlir::Value value);
  mlir::Value exchange(mlir::Value value);
  mlir::Value cutToFront(mlir::Value value, int64_t dim);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value padTo(mlir::Value flat, int64_t count);

  SumParts sumParts;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::DenseIntElementsAttr groups;
  stablehlo::ChannelHandleAttr channel;
  int64_t size; // of a group
};

/// Builds the sum, or product, of F32 or wider elements along the first
/// dimension, in order, rounded once to the element type `rounded`.
mlir::Value buildOrderedSum(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value parts, mlir::Type rounded,
                            bool isProduct = false);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_PIECESUMS_H
