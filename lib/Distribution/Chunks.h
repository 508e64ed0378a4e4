//===- Chunks.h - Which chunk of a pipeline a collective is of --*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_CHUNKS_H
#define SCALIFY_LIB_DISTRIBUTION_CHUNKS_H

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

#include <tuple>

namespace scalify {

/// How many stage borders lie before a value, in the forward and in the
/// backward, and in the how-manieth micro-batch that a block holds.
struct ChunkPlace {
  int64_t forward = 0, backward = 0, microbatch = 0;

  bool isBehindBorder() const { return forward > 0 || backward > 0; }
  auto asTuple() const { return std::tuple(forward, backward, microbatch); }
};

/// Finds where a pipeline's stages will do what a program does, while
/// micro-batches are still loops. It is the plan that is cut
/// (`scalify-place-stages`); that what goes together is of one chunk is all
/// that is asked here, and no result depends on it.
class Chunks {
public:
  explicit Chunks(mlir::Block &main) { walk(main); }

  /// What a collective takes is made there, or, of state, first read there.
  ChunkPlace placeOf(mlir::Operation *collective) const;

private:
  void walk(mlir::Block &block);
  void enter(mlir::Operation *op, const ChunkPlace &before);
  ChunkPlace placeOfOperands(mlir::Operation *op) const;
  ChunkPlace placeOfReader(mlir::Operation *op) const;

  llvm::DenseMap<mlir::Value, ChunkPlace> places;
};

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_CHUNKS_H
