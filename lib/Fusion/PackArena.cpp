//===- PackArena.cpp - Offsets of blocks in one arena ---------------------===//
//
// The smallest arena is a packing problem, and no single order of placement
// suits all programs. Program order reuses memory that was just freed, which is
// good for caches, but small blocks fragment the holes that large ones need.
// Largest first, a training step has no hole at its peak; longest first, the
// values saved from the forward to the backward lie together.
//
//===----------------------------------------------------------------------===//

#include "PackArena.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using namespace llvm;
using namespace scalify;

static constexpr int64_t kAlignment = 64;

/// The number of blocks beyond which only program order is tried: the other
/// orders compare every pair.
static constexpr size_t kMaxPairedBlocks = 16384;

static int64_t sizeOf(const ArenaBlock &block) {
  return alignTo(std::max<int64_t>(block.bytes, 1), kAlignment);
}

static int64_t lengthOf(const ArenaBlock &block) {
  return block.last - block.first;
}

namespace {
/// A best-fit allocator: holes by offset; the arena grows at its end.
class Arena {
public:
  int64_t take(int64_t bytes) {
    auto best = holes.end();
    for (auto it = holes.begin(); it != holes.end(); ++it)
      if (it->second >= bytes &&
          (best == holes.end() || it->second < best->second))
        best = it;
    if (best != holes.end()) {
      auto [offset, size] = *best;
      holes.erase(best);
      if (size > bytes)
        holes[offset + bytes] = size - bytes;
      return offset;
    }
    // Extend a hole at the end, or the arena itself.
    int64_t offset = end;
    if (!holes.empty()) {
      auto last = std::prev(holes.end());
      if (last->first + last->second == end) {
        offset = last->first;
        holes.erase(last);
      }
    }
    end = offset + bytes;
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    auto next = holes.lower_bound(offset);
    if (next != holes.end() && offset + bytes == next->first) {
      bytes += next->second;
      next = holes.erase(next);
    }
    if (next != holes.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    holes[offset] = bytes;
  }

  int64_t size() const { return end; }

private:
  std::map<int64_t, int64_t> holes;
  int64_t end = 0;
};

} // namespace

static int64_t packInOrder(MutableArrayRef<ArenaBlock> blocks) {
  Arena arena;
  std::multimap<int64_t, ArenaBlock *> ends;
  for (ArenaBlock &block : blocks) {
    while (!ends.empty() && ends.begin()->first < block.first) {
      const ArenaBlock &dead = *ends.begin()->second;
      arena.give(dead.offset, sizeOf(dead));
      ends.erase(ends.begin());
    }
    block.offset = arena.take(sizeOf(block));
    ends.insert({block.last, &block});
  }
  return arena.size();
}

/// Returns the offset of the smallest gap that fits `block` among the placed
/// blocks that are live with it, or the end of these.
static int64_t findGap(const ArenaBlock &block,
                       ArrayRef<const ArenaBlock *> placed) {
  SmallVector<std::pair<int64_t, int64_t>> taken;
  for (const ArenaBlock *other : placed)
    if (other->first <= block.last && block.first <= other->last)
      taken.push_back({other->offset, other->offset + sizeOf(*other)});
  llvm::sort(taken);
  int64_t best = -1, smallest = 0, end = 0;
  for (auto [from, to] : taken) {
    int64_t gap = from - end;
    if (gap >= sizeOf(block) && (best < 0 || gap < smallest)) {
      best = end;
      smallest = gap;
    }
    end = std::max(end, to);
  }
  return best < 0 ? end : best;
}

/// Packs the blocks by descending keys.
static int64_t packBy(MutableArrayRef<ArenaBlock> blocks,
                      function_ref<int64_t(const ArenaBlock &)> getKey) {
  SmallVector<ArenaBlock *> order;
  for (ArenaBlock &block : blocks)
    order.push_back(&block);
  llvm::sort(order, [&](const ArenaBlock *a, const ArenaBlock *b) {
    int64_t mine = getKey(*a), other = getKey(*b);
    return mine != other ? mine > other : a < b; // ties in program order
  });
  SmallVector<const ArenaBlock *> placed;
  int64_t size = 0;
  for (ArenaBlock *block : order) {
    block->offset = findGap(*block, placed);
    placed.push_back(block);
    size = std::max(size, block->offset + sizeOf(*block));
  }
  return size;
}

int64_t scalify::packArena(MutableArrayRef<ArenaBlock> blocks) {
  int64_t size = packInOrder(blocks);
  if (blocks.size() > kMaxPairedBlocks)
    return size;
  for (auto *key : {sizeOf, lengthOf}) {
    SmallVector<ArenaBlock> other(blocks);
    int64_t found = packBy(other, key);
    if (found >= size)
      continue;
    size = found;
    llvm::copy(other, blocks.begin());
  }
  return size;
}
