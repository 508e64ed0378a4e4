// An attention of a plan: softmax(q k^T * scale) v, or its gradients.
#ifndef SCALIFY_RUNTIME_LOADER_ATTENTIONSHAPE_H
#define SCALIFY_RUNTIME_LOADER_ATTENTIONSHAPE_H

#include "support/Types.h"

namespace scalify::rt {

/// The layout of a matrix [batch, head, row, channel] in its buffer: offset and
/// strides in elements; channels are contiguous.
struct AttentionWindow {
  int64_t offset = 0, batch = 0, head = 0, row = 0;
};

/// An attention's buffers are q, k, v, result and statistics; a gradient's are
/// q, k, v, result, the result's gradient and statistics, then the gradients of
/// q, k and v. Statistics are F32 [batch, heads, queries]; all others are
/// matrices.
struct AttentionShape {
  DType type = DType::BF16;
  int64_t batch = 1, heads = 1, keyHeads = 1;
  int64_t queries = 1, keys = 1, channels = 1;
  float scale = 1;
  bool isCausal = false; // row i attends to keys 0 to i
  bool isGradient = false;
  std::vector<AttentionWindow> windows; // of the matrices, in order

  size_t buffers() const { return isGradient ? 9 : 5; }
  size_t reads() const { return isGradient ? 6 : 3; }
  size_t statistics() const { return isGradient ? 5 : 4; }
  /// Returns the buffer of a matrix.
  size_t bufferOf(size_t matrix) const {
    return matrix + (matrix >= statistics() ? 1 : 0);
  }
  /// True if the buffer has the heads and rows of k, false if those of q.
  bool isKeySide(size_t buffer) const {
    return buffer == 1 || buffer == 2 || buffer >= 7;
  }
  /// Counts the dots: two, five in a gradient; half of their work under a
  /// causal mask.
  uint64_t flops() const {
    auto dot = uint64_t(batch) * uint64_t(heads) * uint64_t(queries) *
               uint64_t(keys) * uint64_t(channels) * 2;
    return dot * (isGradient ? 5 : 2) / (isCausal ? 2 : 1);
  }
  int64_t headsOf(size_t buffer) const {
    return isKeySide(buffer) ? keyHeads : heads;
  }
  int64_t rowsOf(size_t buffer) const {
    return isKeySide(buffer) ? keys : queries;
  }
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_ATTENTIONSHAPE_H
