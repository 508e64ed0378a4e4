//===- Unroller.h - Loops of a known number of iterations -------*- C++ -*-===//

#ifndef SCALIFY_IMPORT_UNROLLER_H
#define SCALIFY_IMPORT_UNROLLER_H

#include "scalify/Import/JoinStacks.h"

#include "mlir/IR/Block.h"

namespace scalify {

struct UnrollOptions {
  /// Ops that all iterations may have together.
  int64_t maxOps = 200000;
  /// Whether what cannot be written out stays as it is: loops of an unknown
  /// number of iterations or of too many ops, and branches that data choose.
  /// Otherwise such loops are errors, and of such branches all are computed.
  bool partly = false;
  /// How the pieces that iterations write of a stack become one value.
  JoinPieces joinPieces = concatenatePieces;
};

struct UnrollCounts {
  unsigned loops = 0, iterations = 0, stacks = 0, selects = 0;
};

/// Replaces the loops of a block by their iterations. In one that stands by
/// itself the counter is a constant; what is computed from it is folded, and a
/// branch that it chooses is inlined.
llvm::FailureOr<UnrollCounts> unrollLoops(mlir::Block &block,
                                          UnrollOptions options);

} // namespace scalify

#endif // SCALIFY_IMPORT_UNROLLER_H
