//===- ProveExchanges.cpp - All ranks issue the same collectives ----------===//
//
// Ranks that run one program issue the same list of collectives. To complete
// it, each rank must also be in a group of every collective, and no ranks may
// wait for each other.
//
//===----------------------------------------------------------------------===//

#include "RankWalk.h"

#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_PROVEEXCHANGES
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
struct ProveExchangesPass
    : scalify::impl::ProveExchangesBase<ProveExchangesPass> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<plan::ProgramOp>()) {
      // scalify-take-stage proves the exchanges of stages, which involve other
      // programs.
      if (!program.getBody().getOps<plan::MessageOp>().empty())
        continue;
      SmallVector<SmallVector<Operation *>> exchanges = {
          listExchanges(program)};
      int64_t ranks = 0;
      for (Operation *op : exchanges.front())
        for (int64_t rank :
             cast<plan::CollectiveOp>(op).getGroups().getValues<int64_t>())
          ranks = std::max(ranks, std::min(rank, kMaxRanks) + 1);
      if (ranks > 0 && failed(simulateExchanges(exchanges, ranks)))
        return signalPassFailure();
      numProved += exchanges.front().size();
    }
  }
};
} // namespace
