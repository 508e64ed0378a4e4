//===- NearUses.h - Rematerialisation near uses -----------------*- C++ -*-===//
//
// A value that is cheap to compute from a smaller one is computed again for
// uses that are far apart, so that only the smaller one lives between them.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_FUSION_NEARUSES_H
#define SCALIFY_LIB_FUSION_NEARUSES_H

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

namespace scalify {

/// Distances, in ops, between uses of one value from which on the later use has
/// its own.
struct UseDistances {
  int64_t samePhase = 150;
  int64_t otherPhase = 8;
};

class NearUses {
public:
  /// Numbers the ops of the block once: values rematerialised later get the
  /// number of their use.
  NearUses(mlir::Block &block, UseDistances distances);

  /// Clones the op next to uses that are far from it, or in another phase of
  /// the step, and erases it if no use is left. Returns the number of clones.
  int64_t rematerialise(mlir::Operation *op);

private:
  UseDistances distances;
  llvm::DenseMap<mlir::Operation *, int64_t> position;
};

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_NEARUSES_H
