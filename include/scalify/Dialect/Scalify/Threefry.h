//===- Threefry.h - The random function of casts ----------------*- C++ -*-===//
//
// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", 2011), over any type of word: a builder provides `add`,
// `bxor`, `rotateLeft`, and `constant`.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_SCALIFY_THREEFRY_H
#define SCALIFY_DIALECT_SCALIFY_THREEFRY_H

#include <array>
#include <cstdint>

namespace scalify {

/// Returns the block of `key` and `counter`. Values that depend only on the key
/// are computed separately, since its words may be cheaper than the counter's.
template <typename Word, typename Builder>
std::array<Word, 2> threefry(Builder &b, std::array<Word, 2> key,
                             std::array<Word, 2> counter) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const Word keys[3] = {key[0], key[1],
                        b.bxor(b.bxor(key[0], key[1]), b.constant(0x1bd11bda))};
  Word x = b.add(counter[0], keys[0]), y = b.add(counter[1], keys[1]);
  for (int group = 0; group < 5; ++group) {
    for (int rotation : kRotations[group % 2]) {
      x = b.add(x, y);
      y = b.bxor(b.rotateLeft(y, rotation), x);
    }
    x = b.add(x, keys[(group + 1) % 3]);
    y = b.add(y, b.add(keys[(group + 2) % 3], b.constant(group + 1)));
  }
  return {x, y};
}

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_THREEFRY_H
