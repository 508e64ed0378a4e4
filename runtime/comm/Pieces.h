// The division of an all_reduce's elements among the members.
#ifndef SCALIFY_RUNTIME_COMM_PIECES_H
#define SCALIFY_RUNTIME_COMM_PIECES_H

#include <algorithm>
#include <cstdint>

namespace scalify::rt {

struct Piece {
  int64_t begin;
  int64_t elements;
};

/// Returns the piece that the member at `place` reduces: the first `elements %
/// members` members have one element more.
inline Piece getPiece(int64_t elements, int64_t members, int64_t place) {
  int64_t base = elements / members, longer = elements % members;
  return {place * base + std::min(place, longer), base + (place < longer)};
}

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_PIECES_H
