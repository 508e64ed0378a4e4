//===- PieceSums.h - Sums over ranks, a piece by each -----------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_PIECESUMS_H
#define SCALIFY_LIB_DISTRIBUTION_PIECESUMS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Builders.h"

namespace scalify {

/// Writes a sum over ranks, at the place of its op, as an exchange in which
/// each rank gets the others' parts of what it sums itself.
class PieceSums {
public:
  /// Makes the sum along the first dimension, which has the ranks' parts in
  /// the order of the group.
  using SumParts =
      llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Value parts)>;

  /// The groups are of equal size.
  PieceSums(mlir::Operation *op, SumParts sumParts);

  /// Each rank sums a piece, and the pieces are gathered. What the ranks do not
  /// divide is filled up with zeros.
  mlir::Value all(mlir::Value value);
  /// Each rank gets all, and sums all: one message in place of two.
  mlir::Value gathered(mlir::Value value);
  /// Each rank sums its piece along a dimension.
  mlir::Value scatter(mlir::Value value, int64_t dim);

private:
  mlir::Value gather(mlir::Value value);
  mlir::Value exchange(mlir::Value value);
  mlir::Value cutToFront(mlir::Value value, int64_t dim);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value fillUp(mlir::Value flat, int64_t count);

  SumParts sumParts;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::DenseIntElementsAttr groups;
  stablehlo::ChannelHandleAttr channel;
  int64_t size; // of a group
};

/// The sum, or product, of F32 or wider numbers along the first dimension, one
/// after the other; rounded once to an element type.
mlir::Value buildOrderedSum(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value parts, mlir::Type rounded,
                            bool isProduct = false);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_PIECESUMS_H
