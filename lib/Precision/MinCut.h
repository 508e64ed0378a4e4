//===- MinCut.h - Minimum cut of a flow network -----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_MINCUT_H
#define SCALIFY_LIB_PRECISION_MINCUT_H

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace scalify {

/// A flow network and its minimum cut between a source and a sink. Computes the
/// maximum flow by blocking flows (Dinic 1970): O(nodes^2 edges) at worst, near
/// linear if paths are short.
class MinCut {
public:
  static constexpr int64_t kUnlimited = int64_t(1) << 60;

  explicit MinCut(unsigned numNodes) : edgesOf(numNodes) {}

  void addEdge(unsigned from, unsigned to, int64_t capacity);

  /// Returns the nodes on the sink's side of the minimum cut that is nearest to
  /// the sink.
  llvm::BitVector getSinkSide(unsigned source, unsigned sink);

private:
  struct Edge {
    unsigned to;
    int64_t capacity; // residual
  };

  bool findLevels(unsigned source, unsigned sink);
  int64_t push(unsigned node, unsigned sink, int64_t most);

  /// Edge 2 i + 1 is the reverse of edge 2 i.
  llvm::SmallVector<Edge> edges;
  llvm::SmallVector<llvm::SmallVector<unsigned, 4>> edgesOf;
  llvm::SmallVector<unsigned> levels, next;
};

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_MINCUT_H
