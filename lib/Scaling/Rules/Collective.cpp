//===- Collective.cpp - Rules of collectives ------------------------------===//

#include "scalify/Scaling/Rules.h"

#include "Moments.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

using namespace mlir;
using namespace scalify;

using Results = MutableArrayRef<ScaleFacts>;

/// Returns the devices of one group; one if the op does not specify them.
static double countRanks(DenseIntElementsAttr groups) {
  auto type = cast<ShapedType>(groups.getType());
  return type.getRank() == 2 && type.getNumElements() > 0
             ? static_cast<double>(type.getDimSize(1))
             : 1.0;
}

template <typename OpTy>
static void reduceOverRanksFacts(const FactsQuery &query, Results out) {
  double ranks = countRanks(cast<OpTy>(query.op).getReplicaGroups());
  Operation *body = getSingleBodyOp(query.op->getRegion(0));
  for (auto [i, result] : llvm::enumerate(out)) {
    result = reductionOf(query.operand(i), body, TermCount::of(ranks));
    result.rule = describeReduction(query.op, body, ranks);
  }
}

static ScaleFamily reduceFamily(Operation *op) {
  return isHomogeneous(op->getRegion(0)) ? ScaleFamily::Reduce
                                         : ScaleFamily::True;
}

static void moveFacts(const FactsQuery &query, Results out) {
  for (auto [i, result] : llvm::enumerate(out)) {
    result = query.operand(i);
    result.rule = shortName(query.op);
  }
}

void scalify::attachCollectiveRules(MLIRContext *context) {
  using namespace stablehlo;
  attachRule<reduceFamily, reduceOverRanksFacts<AllReduceOp>, AllReduceOp>(
      context);
  attachRule<reduceFamily, reduceOverRanksFacts<ReduceScatterOp>,
             ReduceScatterOp>(context);
  attachRule<ScaleFamily::PassEach, moveFacts, AllGatherOp, AllToAllOp,
             CollectivePermuteOp, CollectiveBroadcastOp>(context);
}
