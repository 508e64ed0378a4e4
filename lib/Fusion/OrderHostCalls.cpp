//===- OrderHostCalls.cpp - Order of host calls with effects --------------===//

#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_ORDERHOSTCALLS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
struct OrderHostCallsPass
    : scalify::impl::OrderHostCallsBase<OrderHostCallsPass> {
  void runOnOperation() override;
};
} // namespace

void OrderHostCallsPass::runOnOperation() {
  if (getOperation().isExternal() || !getOperation().getBody().hasOneBlock())
    return;
  Block &block = getOperation().getBody().front();
  Value last;
  for (auto call : llvm::make_early_inc_range(block.getOps<plan::InvokeOp>())) {
    if (!call.getHasEffects() || call.getAfter())
      continue;
    OpBuilder b(call);
    auto type = RankedTensorType::get({}, b.getI32Type());
    if (!last)
      last = stablehlo::buildIndex(b, call.getLoc(), 0);
    SmallVector<Type> types(call.getResultTypes());
    types.push_back(type);
    auto ordered = plan::InvokeOp::create(
        b, call.getLoc(), types, call.getName(), call.getInputs(),
        call.getWhen(), last, call.getCallbackAttr(), call.getProgramAttr(),
        /*has_effects=*/true);
    ordered->setDiscardableAttrs(call->getDiscardableAttrDictionary());
    call->replaceAllUsesWith(ordered.getOutputs().drop_back());
    call.erase();
    last = ordered.getOutputs().back();
  }
}
