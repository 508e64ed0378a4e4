//===- Chunks.h - The pipeline chunk of a collective ------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_CHUNKS_H
#define SCALIFY_LIB_DISTRIBUTION_CHUNKS_H

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

#include <tuple>

namespace scalify {

/// The number of forward and backward stage borders that precede a value, and
/// the index of the micro-batch among those in the block.
struct ChunkPlace {
  int64_t forward = 0, backward = 0, microbatch = 0;

  bool isBehindBorder() const { return forward > 0 || backward > 0; }
  auto asTuple() const { return std::tuple(forward, backward, microbatch); }
};

/// Predicts the pipeline chunk of each value while micro-batches are still
/// loops. `scalify-place-stages` later cuts the plan itself; this class only
/// keeps the members of a bucket in one chunk, and no result depends on it.
class Chunks {
public:
  explicit Chunks(mlir::Block &main) { walk(main); }

  /// Returns the place where the collective's operand is computed or, for
  /// state, where its result is first read.
  ChunkPlace placeOf(mlir::Operation *collective) const;

private:
  void walk(mlir::Block &block);
  void enter(mlir::Operation *op, const ChunkPlace &before);
  ChunkPlace getOperandPlace(mlir::Operation *op) const;
  ChunkPlace getReaderPlace(mlir::Operation *op) const;

  llvm::DenseMap<mlir::Value, ChunkPlace> places;
};

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_CHUNKS_H
