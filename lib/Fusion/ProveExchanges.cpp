//===- ProveExchanges.cpp - All ranks issue the same collectives ----------===//
//
// Ranks of one program issue the same list. That they meet in it is another
// matter: each must be in a group of every collective, and wait for no one who
// waits for it.
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
class ProveExchangesPass
    : public scalify::impl::ProveExchangesBase<ProveExchangesPass> {
public:
  using ProveExchangesBase::ProveExchangesBase;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<plan::ProgramOp>()) {
      // A stage's meet those of other programs: scalify-take-stage.
      if (!program.getBody().getOps<plan::MessageOp>().empty())
        continue;
      SmallVector<SmallVector<Operation *>> exchanges = {
          listExchanges(program)};
      int64_t ranks = 0;
      for (Operation *op : exchanges.front())
        for (int64_t rank :
             cast<plan::CollectiveOp>(op).getGroups().getValues<int64_t>())
          ranks = std::max(ranks, rank + 1);
      if (ranks > 0 && failed(walkExchanges(exchanges, ranks)))
        return signalPassFailure();
      numProved += exchanges.front().size();
    }
  }
};
} // namespace
