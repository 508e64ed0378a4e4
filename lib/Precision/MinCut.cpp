//===- MinCut.cpp - Minimum cut of a flow network -------------------------===//

#include "MinCut.h"

#include <algorithm>

using namespace scalify;

static constexpr unsigned kUnreached = ~0U;

void MinCut::addEdge(unsigned from, unsigned to, int64_t capacity) {
  edgesOf[from].push_back(edges.size());
  edges.push_back({to, capacity});
  edgesOf[to].push_back(edges.size());
  edges.push_back({from, 0});
}

/// Computes each node's distance from the source in edges. Returns false if the
/// sink is unreachable.
bool MinCut::findLevels(unsigned source, unsigned sink) {
  levels.assign(edgesOf.size(), kUnreached);
  levels[source] = 0;
  llvm::SmallVector<unsigned> queue{source};
  for (size_t i = 0; i < queue.size(); ++i)
    for (unsigned index : edgesOf[queue[i]]) {
      const Edge &edge = edges[index];
      if (edge.capacity == 0 || levels[edge.to] != kUnreached)
        continue;
      levels[edge.to] = levels[queue[i]] + 1;
      queue.push_back(edge.to);
    }
  return levels[sink] != kUnreached;
}

/// Pushes at most `most` units of flow from a node to the sink, along edges
/// that lead one level up. Returns the units pushed.
int64_t MinCut::push(unsigned node, unsigned sink, int64_t most) {
  if (node == sink)
    return most;
  for (unsigned &i = next[node]; i < edgesOf[node].size(); ++i) {
    unsigned index = edgesOf[node][i];
    Edge edge = edges[index];
    if (edge.capacity == 0 || levels[edge.to] != levels[node] + 1)
      continue;
    int64_t pushed = push(edge.to, sink, std::min(most, edge.capacity));
    if (pushed == 0)
      continue;
    edges[index].capacity -= pushed;
    edges[index ^ 1].capacity += pushed;
    return pushed;
  }
  return 0;
}

llvm::BitVector MinCut::getSinkSide(unsigned source, unsigned sink) {
  while (findLevels(source, sink)) {
    next.assign(edgesOf.size(), 0);
    while (push(source, sink, kUnlimited) > 0)
      ;
  }
  // Walk backwards over edges with residual capacity.
  llvm::BitVector side(edgesOf.size());
  side.set(sink);
  llvm::SmallVector<unsigned> queue{sink};
  for (size_t i = 0; i < queue.size(); ++i)
    for (unsigned index : edgesOf[queue[i]]) {
      unsigned from = edges[index].to;
      if (edges[index ^ 1].capacity == 0 || side.test(from))
        continue;
      side.set(from);
      queue.push_back(from);
    }
  return side;
}
