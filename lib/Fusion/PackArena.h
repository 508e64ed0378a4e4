//===- PackArena.h - Places of blocks in one arena --------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_PACKARENA_H
#define SCALIFY_LIB_FUSION_PACKARENA_H

#include "llvm/ADT/ArrayRef.h"

namespace scalify {

/// Memory that is taken from one position of a program to another, both
/// included.
struct ArenaBlock {
  int64_t bytes = 0;
  int64_t first = 0, last = 0;
  int64_t offset = 0;
};

/// Gives blocks, listed by their first positions, offsets of multiples of 64
/// bytes at which those that live together lie apart. Returns the bytes of all.
int64_t packArena(llvm::MutableArrayRef<ArenaBlock> blocks);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_PACKARENA_H
