//===- ScaleGrids.h - Operands of dots with many scales ---------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_SCALEGRIDS_H
#define SCALIFY_LIB_FUSION_SCALEGRIDS_H

#include "scalify/Dialect/Plan/Plan.h"

#include "mlir/IR/Builders.h"

#include <optional>

namespace scalify {

/// The scales of a dot's operand over its matrix: rows are its free dimensions,
/// in order, columns its contracting dimensions.
struct ScaleGrid {
  mlir::Value scale; // rank 0, or as many dimensions as the operand
  llvm::SmallVector<int64_t> order; // of these: free, then contracting
  int64_t rows = 1, columns = 1;
  /// The numbers of elements that share a scale along rows and columns.
  int64_t rowGrain = 1, columnGrain = 1;
};

/// Returns the grid of an operand with blocks of these sizes, 0 for a whole
/// dimension. None if they are no blocks of the matrix: if several dimensions
/// form one of its sides, the last may be split only into whole blocks.
std::optional<ScaleGrid> getScaleGrid(mlir::Value scale,
                                      llvm::ArrayRef<int64_t> shape,
                                      llvm::ArrayRef<int64_t> block,
                                      llvm::ArrayRef<int64_t> free,
                                      llvm::ArrayRef<int64_t> sum);

/// Chooses the granularity of both operands' scales in a GEMM, for which scales
/// may be repeated. None if the library has no such product.
std::optional<std::pair<plan::Scaling, plan::Scaling>>
chooseScalings(const ScaleGrid &a, const ScaleGrid &b);

/// Returns the sizes of the blocks with a scale each, as `scalify.dequantize`
/// has them.
llvm::SmallVector<int64_t> getBlock(plan::Scaling scaling);

/// Returns the scales for a `scalify.dequantize` on the matrix, in the memory
/// layout that a GEMM reads; copies them if they have another layout.
mlir::Value layOut(const ScaleGrid &grid, plan::Scaling scaling,
                   mlir::OpBuilder &b);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_SCALEGRIDS_H
