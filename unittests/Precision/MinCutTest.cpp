// Compares the minimum cut with the best of all cuts of a small network.
#include "MinCut.h"

#include <gtest/gtest.h>

#include <random>

using scalify::MinCut;

namespace {
struct Edge {
  unsigned from, to;
  int64_t capacity;
};
} // namespace

/// Returns the capacity of the edges into `side`, a bit set of nodes.
static int64_t costOf(llvm::ArrayRef<Edge> edges, unsigned side) {
  int64_t cost = 0;
  for (const Edge &edge : edges)
    if ((side >> edge.to & 1) && !(side >> edge.from & 1))
      cost += edge.capacity;
  return cost;
}

TEST(MinCut, IsTheBestOfAllAndNearestToTheSink) {
  // NOLINTNEXTLINE(bugprone-random-generator-seed): the same in each run.
  std::mt19937 random(7);
  constexpr unsigned kNodes = 8, kSource = 0, kSink = kNodes - 1;
  for (int trial = 0; trial < 300; ++trial) {
    llvm::SmallVector<Edge> edges;
    MinCut network(kNodes);
    for (unsigned i = 0, end = random() % 24; i < end; ++i) {
      // Small capacities give many cuts of equal cost.
      Edge edge{static_cast<unsigned>(random() % kNodes),
                static_cast<unsigned>(random() % kNodes),
                static_cast<int64_t>(random() % 4)};
      if (edge.from == edge.to)
        continue;
      edges.push_back(edge);
      network.addEdge(edge.from, edge.to, edge.capacity);
    }
    int64_t best = MinCut::kUnlimited;
    unsigned nearest = 0;
    for (unsigned side = 0; side < 1U << kNodes; ++side) {
      if (!(side >> kSink & 1) || (side >> kSource & 1))
        continue;
      int64_t cost = costOf(edges, side);
      // The sink sides of minimum cuts are closed under intersection.
      nearest = cost < best ? side : cost == best ? nearest & side : nearest;
      best = std::min(best, cost);
    }
    llvm::BitVector found = network.getSinkSide(kSource, kSink);
    unsigned side = 0;
    for (unsigned node : found.set_bits())
      side |= 1U << node;
    EXPECT_EQ(costOf(edges, side), best);
    EXPECT_EQ(side, nearest);
  }
}

TEST(MinCut, UnlimitedEdgesStay) {
  MinCut network(4);
  network.addEdge(0, 1, MinCut::kUnlimited);
  network.addEdge(1, 2, 5);
  network.addEdge(2, 3, MinCut::kUnlimited);
  llvm::BitVector side = network.getSinkSide(0, 3);
  EXPECT_FALSE(side.test(1));
  EXPECT_TRUE(side.test(2));
}
