//===- Unroller.h - Unroll loops of known trip count ------------*- C++ -*-===//

#ifndef SCALIFY_IMPORT_UNROLLER_H
#define SCALIFY_IMPORT_UNROLLER_H

#include "scalify/Import/JoinStacks.h"

#include "mlir/IR/Block.h"

namespace scalify {

struct UnrollOptions {
  /// Limit of the number of ops of all iterations.
  int64_t maxOps = 200000;
  /// Whether to keep loops of unknown trip count or with too many ops, and
  /// branches on values that are not constant. Otherwise such loops are errors,
  /// and all regions of such branches are computed.
  bool partly = false;
  /// With `partly`, the most ops of all iterations of a loop that is unrolled.
  int64_t maxLoopOps = INT64_MAX;
  /// Joins the pieces of a stack that iterations write.
  JoinPieces joinPieces = concatenatePieces;
};

struct UnrollCounts {
  unsigned loops = 0, iterations = 0, stacks = 0, selects = 0;
};

/// Unrolls the loops of a block. The induction variable of an iteration is a
/// constant; ops computed from it are folded, and the branch that it selects is
/// inlined.
llvm::FailureOr<UnrollCounts> unrollLoops(mlir::Block &block,
                                          UnrollOptions options);

} // namespace scalify

#endif // SCALIFY_IMPORT_UNROLLER_H
