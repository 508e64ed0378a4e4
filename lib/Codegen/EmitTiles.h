//===- EmitTiles.h - Transposes by tiles of a GPU's shared memory -*- C++
//-*-===//

#ifndef SCALIFY_LIB_CODEGEN_EMITTILES_H
#define SCALIFY_LIB_CODEGEN_EMITTILES_H

#include "KernelSchedule.h"

namespace scalify::codegen {

/// What a kernel reads in one order of dimensions and writes in another. The
/// last dimension of either order is a side of the tiles.
struct TileSpace {
  llvm::SmallVector<int64_t> shape; // in the order of reading
  llvm::SmallVector<int64_t> order; // of writing, as a permutation
  llvm::SmallVector<stablehlo::TransposeOp> turns;
  /// Outputs in the order of reading, and those behind a transpose.
  llvm::SmallVector<unsigned> straight, turned;
  int64_t side = 0;                        // of a tile
  int64_t readLanes = 1, writtenLanes = 1; // of vectors
};

/// None if the kernel has no transpose that takes neighbours apart, or has
/// what does not go by tiles.
std::optional<TileSpace> chooseTiles(plan::KernelOp kernel);

/// What some values are computed of, up to the operands of ops that end it.
llvm::DenseSet<mlir::Value>
valuesBehind(mlir::ValueRange roots,
             llvm::function_ref<bool(mlir::Operation *)> isEnd);

mlir::FailureOr<KernelRows> emitTiles(KernelEmitter &emitter,
                                      const TileSpace &space);

} // namespace scalify::codegen

#endif // SCALIFY_LIB_CODEGEN_EMITTILES_H
