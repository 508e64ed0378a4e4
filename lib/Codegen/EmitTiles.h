//===- EmitTiles.h - Transposes by tiles in GPU shared memory ---*- C++ -*-===//

#ifndef SCALIFY_LIB_CODEGEN_EMITTILES_H
#define SCALIFY_LIB_CODEGEN_EMITTILES_H

#include "KernelSchedule.h"

namespace scalify::codegen {

/// The iteration space of a kernel that reads in one order of dimensions and
/// writes in another. The last dimension of each order is a side of the tiles.
struct TileSpace {
  llvm::SmallVector<int64_t> shape; // in read order
  llvm::SmallVector<int64_t> order; // write order, as a permutation
  llvm::SmallVector<stablehlo::TransposeOp> turns;
  /// Outputs in read order, and outputs that depend on a transpose.
  llvm::SmallVector<unsigned> straight, turned;
  int64_t side = 0;                        // side of a tile
  int64_t readLanes = 1, writtenLanes = 1; // vector widths
};

/// Returns none if no transpose in the kernel moves the innermost dimension, or
/// if tiles cannot hold the kernel.
std::optional<TileSpace> chooseTiles(plan::KernelOp kernel);

/// Returns the values that `roots` depend on, roots included. The walk does not
/// go past the results of ops for which `isEnd` holds.
llvm::DenseSet<mlir::Value>
collectDependencies(mlir::ValueRange roots,
                    llvm::function_ref<bool(mlir::Operation *)> isEnd);

mlir::FailureOr<KernelRows> emitTiles(KernelEmitter &emitter,
                                      const TileSpace &space);

} // namespace scalify::codegen

#endif // SCALIFY_LIB_CODEGEN_EMITTILES_H
