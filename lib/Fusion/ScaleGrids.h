//===- ScaleGrids.h - Operands of dots with many scales ---------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_SCALEGRIDS_H
#define SCALIFY_LIB_FUSION_SCALEGRIDS_H

#include "scalify/Dialect/Plan/Plan.h"

#include "mlir/IR/Builders.h"

#include <optional>

namespace scalify {

/// On a `scalify.dequantize` whose scales a GEMM reads: how they lie.
inline constexpr llvm::StringLiteral kScalingAttr = "plan.scaling";

/// The scales of a dot's operand over its matrix: rows are its free
/// dimensions, in order, columns those of the sum.
struct ScaleGrid {
  mlir::Value scale; // rank 0, or as many dimensions as the operand
  llvm::SmallVector<int64_t> order; // of them: free, then the sum's
  int64_t rows = 1, columns = 1;
  /// How many elements share a scale, either way.
  int64_t rowGrain = 1, columnGrain = 1;
};

/// The grid of an operand with blocks of these sizes, 0 for a whole dimension.
/// None where they are no blocks of the matrix: of several dimensions that are
/// one of its sides, the last may be cut only where it holds whole blocks.
std::optional<ScaleGrid> getScaleGrid(mlir::Value scale,
                                      llvm::ArrayRef<int64_t> shape,
                                      llvm::ArrayRef<int64_t> block,
                                      llvm::ArrayRef<int64_t> free,
                                      llvm::ArrayRef<int64_t> sum);

/// How a GEMM is given the scales of both operands: as they are, or each
/// written for all the parts that it is of. None where the library has no such
/// product.
std::optional<std::pair<plan::Scaling, plan::Scaling>>
chooseScalings(const ScaleGrid &a, const ScaleGrid &b);

/// The blocks of a matrix that have a scale of their own, as sizes of
/// `scalify.dequantize`.
llvm::SmallVector<int64_t> getBlock(plan::Scaling scaling);

/// The grid as that of a `scalify.dequantize` on the matrix, and in memory as
/// a GEMM reads it: there is a copy beneath where it does not lie so.
mlir::Value layOut(const ScaleGrid &grid, plan::Scaling scaling,
                   mlir::OpBuilder &b);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_SCALEGRIDS_H
