//===- Entries.cpp - Ops without arithmetic of their own ------------------===//
//
// Calls of code that is not seen, tokens, tuples, sizes: each has an entry that
// says so, and the coverage test fails for an op that has none.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Rules.h"

#include "Moments.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

using namespace mlir;
using namespace scalify;

using Results = MutableArrayRef<ScaleFacts>;

static void noFacts(const FactsQuery &query, Results out) {
  for (ScaleFacts &result : out)
    result.rule = shortName(query.op);
}

static void passFacts(const FactsQuery &query, Results out) {
  for (auto [i, result] : llvm::enumerate(out)) {
    if (i < query.op->getNumOperands())
      result = query.operand(i);
    result.rule = shortName(query.op);
  }
}

/// Targets that annotate or move their operands and compute nothing.
static bool isAnnotation(StringRef target) {
  return llvm::StringSwitch<bool>(target)
      .Cases({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}, true)
      .Cases({"annotate_device_placement", "MoveToHost", "MoveToDevice"}, true)
      .Cases({"LayoutConstraint", "PinToDevice", "xla.sdy.FuncResultSharding"},
             true)
      .Cases({"xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"}, true)
      .Default(false);
}

static ScaleFamily customCallFamily(Operation *op) {
  auto call = cast<stablehlo::CustomCallOp>(op);
  return isAnnotation(call.getCallTargetName()) &&
                 op->getNumOperands() == op->getNumResults()
             ? ScaleFamily::PassEach
             : ScaleFamily::Opaque;
}

void scalify::attachEntries(MLIRContext *context) {
  using namespace stablehlo;
  attachRule<customCallFamily, passFacts, CustomCallOp>(context);
  attachRule<ScaleFamily::Opaque, noFacts, CompositeOp, InfeedOp, RecvOp,
             TupleOp, GetTupleElementOp>(context);
  // What leaves the program leaves as true values.
  attachRule<ScaleFamily::True, noFacts, OutfeedOp, SendOp>(context);
  attachRule<ScaleFamily::Untouched, noFacts, AfterAllOp, CreateTokenOp,
             PartitionIdOp, ReplicaIdOp, GetDimensionSizeOp, ReturnOp>(context);
}

void scalify::attachSdyRules(MLIRContext *context) {
  attachRule<ScaleFamily::Pass, passFacts, sdy::ShardingConstraintOp,
             sdy::ReshardOp>(context);
  attachRule<ScaleFamily::Untouched, noFacts, sdy::MeshOp, sdy::ShardingGroupOp,
             sdy::ReturnOp>(context);
}
