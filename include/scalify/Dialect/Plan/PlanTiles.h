//===- PlanTiles.h - Commands that run tile by tile -------------*- C++ -*-===//
//
// A group of neighbouring commands may run tile by tile: a thread runs one tile
// of the first command, then that of the second, and so on, while other threads
// run other tiles. Values between the commands stay in the thread's cache, and
// may be memory of the thread that holds one tile.
//
// Tile t of `tiles` is the t-th of as many equal parts of a buffer in memory
// order; of a kernel, the rows that write these parts; of a GEMM, one index of
// its first batch dimensions.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_PLAN_PLANTILES_H
#define SCALIFY_DIALECT_PLAN_PLANTILES_H

#include "scalify/Dialect/Plan/PlanStreams.h"

#include <optional>

namespace scalify::plan {

struct Tiling {
  int64_t tiles = 1, group = -1;
};

/// Returns the tiling of a command in a group.
std::optional<Tiling> tilingOf(mlir::Operation *command);
void setTiling(mlir::Operation *command, Tiling tiling);

/// The positions of the first and the last command of a group.
struct TileGroup {
  Tiling tiling;
  int64_t first = 0, last = 0;
};
llvm::SmallVector<TileGroup> findTileGroups(ProgramOp program);

/// Returns the number of a GEMM's first batch dimensions that have `tiles`
/// indices together; 0 if there is none.
size_t countTiledDims(GemmOp gemm, int64_t tiles);

/// Returns for each operand of a command whether its tile t touches tile t of
/// the buffer alone; none if the command cannot run in `tiles` tiles.
std::optional<llvm::SmallVector<bool>> alignTiles(mlir::Operation *command,
                                                  int64_t tiles);

/// The memory that a command in tiles touches through one operand.
struct TiledAccess {
  mlir::OpOperand *operand;
  Access access;
  bool isAligned; // tile t touches tile t of the buffer alone

  /// True if a tile of one command may touch bytes that another tile of the
  /// other command touches, and one of them writes.
  bool conflictsWith(const TiledAccess &other) const;
};

/// Returns the accesses of a command; none if it cannot run in `tiles` tiles.
std::optional<llvm::SmallVector<TiledAccess>>
tiledAccessesOf(mlir::Operation *command, int64_t tiles);

/// Returns the number of a buffer's tiles if it is a thread's memory for one
/// tile, 0 otherwise.
int64_t countOwnTiles(mlir::Value buffer);

/// Fails if a group has a command that cannot run in its tiles, or if a tile
/// touches memory that another tile writes.
mlir::LogicalResult verifyTiles(ProgramOp program);

} // namespace scalify::plan

#endif // SCALIFY_DIALECT_PLAN_PLANTILES_H
