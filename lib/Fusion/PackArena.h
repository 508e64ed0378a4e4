//===- PackArena.h - Offsets of blocks in one arena -------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_PACKARENA_H
#define SCALIFY_LIB_FUSION_PACKARENA_H

#include "llvm/ADT/ArrayRef.h"

namespace scalify {

/// Memory that is live from position `first` of a program to `last`, inclusive.
struct ArenaBlock {
  int64_t bytes = 0;
  int64_t first = 0, last = 0;
  int64_t offset = 0;
};

/// Assigns offsets, multiples of 64 bytes, to blocks that are sorted by their
/// first positions, so that no two live blocks overlap. Returns the arena's
/// bytes.
int64_t packArena(llvm::MutableArrayRef<ArenaBlock> blocks);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_PACKARENA_H
