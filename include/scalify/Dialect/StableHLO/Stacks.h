//===- Stacks.h - Stacks of layers, and sums of their elements --*- C++ -*-===//
//
// Loops over layers write stacks slice by slice. A sum or split of such a stack
// consists of those of its slices, so that layers are independent.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_STABLEHLO_STACKS_H
#define SCALIFY_DIALECT_STABLEHLO_STACKS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

#include <set>

namespace scalify::stablehlo {

/// Returns the op that writes the stack in one of a loop's results, one slice
/// along the first dimension per iteration; null for other results.
DynamicUpdateSliceOp getSliceUpdate(WhileOp loop, unsigned index);

/// The shapes of values that are processed slice by slice along their first
/// dimension.
using StackShapes = std::set<llvm::SmallVector<int64_t>>;

/// Returns the shapes of values that loops write slice by slice, such as
/// gradients of stacked weights, and of values that results and sums derive
/// from them element by element.
StackShapes findStackShapes(mlir::func::FuncOp main);

/// Returns the leading dimensions of a type that index slices: one for a stack,
/// otherwise none.
llvm::ArrayRef<int64_t> getSlices(const StackShapes &stacks,
                                  mlir::RankedTensorType type);

/// Flattens each slice and pads it with zeros to `size` elements.
mlir::Value padSlices(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::Value value, llvm::ArrayRef<int64_t> slices,
                      int64_t size);

/// On a pad to equal shares of ranks: the padding is no part of the tensor, and
/// does not affect its scale.
inline constexpr llvm::StringLiteral kSharePaddingAttr = "scalify.fills_shares";

/// Returns the number of elements that are summed per chunk, before the chunks'
/// sums are. It depends only on the number of elements, so that sums do not
/// depend on the number of ranks.
int64_t getChunkSize(int64_t elements);

/// On a sum over chunks' sums, which must stay as it is.
inline constexpr llvm::StringLiteral kChunkSumsAttr = "scalify.chunk_sums";

/// True if a reduction sums all elements of one tensor of floats.
bool isFullSum(ReduceOp reduce);

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_STACKS_H
