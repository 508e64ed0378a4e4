//===- Stacks.h - Stacks of layers, and sums of their elements --*- C++ -*-===//
//
// Loops over layers write stacks slice by slice. What is summed or cut of such
// a stack is that of its slices, one by one, so that a layer needs no other.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_STABLEHLO_STACKS_H
#define SCALIFY_DIALECT_STABLEHLO_STACKS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

#include <set>

namespace scalify::stablehlo {

/// What a loop writes into the stack that is one of its results, one slice
/// along the first dimension in an iteration; null for other results.
DynamicUpdateSliceOp getSliceUpdate(WhileOp loop, unsigned index);

/// The shapes of values that are cut slice by slice along their first
/// dimension.
using StackShapes = std::set<llvm::SmallVector<int64_t>>;

/// The shapes of what loops write slice by slice, as gradients of stacked
/// weights, and of what results and sums are computed from, element by element,
/// of these.
StackShapes findStackShapes(mlir::func::FuncOp main);

/// The leading dimensions of a type that number slices: one of a stack, else
/// none.
llvm::ArrayRef<int64_t> getSlices(const StackShapes &stacks,
                                  mlir::RankedTensorType type);

/// The elements of each slice in a row, filled up with zeros to `size`.
mlir::Value fillSlices(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Value value, llvm::ArrayRef<int64_t> slices,
                       int64_t size);

/// On a pad that fills up to ranks' equal shares: what it adds is no part of
/// the tensor, and has no say in its scale.
inline constexpr llvm::StringLiteral kFillsSharesAttr = "scalify.fills_shares";

/// The elements that are summed before sums of chunks are: by how many there
/// are alone, so that no sum depends on how many ranks share them.
int64_t getChunk(int64_t elements);

/// Of a sum over sums of chunks, which shall stay as it is.
inline constexpr llvm::StringLiteral kChunkSumsAttr = "scalify.chunk_sums";

/// Whether a reduction sums all elements of one tensor of floats.
bool isSumOfAll(ReduceOp reduce);

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_STACKS_H
