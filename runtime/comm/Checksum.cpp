#include "comm/Checksum.h"

#include <cstring>

namespace {
constexpr uint64_t basis = 0xcbf29ce484222325, prime = 0x100000001b3;
constexpr int lanes = 8;
constexpr uint64_t blockBytes = lanes * sizeof(uint64_t);

uint64_t step(uint64_t hash, uint64_t word) { return (hash ^ word) * prime; }
} // namespace

uint64_t scalify::rt::checksum(const void *data, uint64_t bytes) {
  const auto *at = static_cast<const uint8_t *>(data);
  uint64_t lane[lanes];
  for (int i = 0; i < lanes; ++i)
    lane[i] = basis + uint64_t(i);
  uint64_t left = bytes;
  for (; left >= blockBytes; left -= blockBytes, at += blockBytes) {
    uint64_t words[lanes];
    std::memcpy(words, at, sizeof(words));
    for (int i = 0; i < lanes; ++i)
      lane[i] = step(lane[i], words[i]);
  }
  uint64_t hash = step(basis, bytes);
  for (uint64_t value : lane)
    hash = step(hash, value);
  for (; left; left -= left < 8 ? left : 8, at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, left < 8 ? left : 8);
    hash = step(hash, word);
  }
  return hash;
}
