//===- RestoreMarks.cpp - Decode scale hints after partitioning -----------===//

#include "Marks.h"

#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Distribution/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_RESTOREMARKSPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static void restore(stablehlo::OptimizationBarrierOp barrier,
                    DictionaryAttr mark) {
  OpBuilder b(barrier);
  OperationState state(barrier.getLoc(),
                       mark.getAs<StringAttr>("name").getValue());
  state.addAttributes(mark.getAs<DictionaryAttr>("attrs").getValue());
  bool hasScale = state.name.getStringRef() == DataScaleOp::getOperationName();
  bool takesScale =
      state.name.getStringRef() == OverrideScaleOp::getOperationName();
  state.addOperands(barrier->getOperands().take_front(takesScale ? 2 : 1));
  for (Value result : barrier->getResults().take_front(hasScale ? 2 : 1))
    state.types.push_back(result.getType());
  Operation *op = b.create(state);
  for (auto [old, now] : llvm::zip(barrier->getResults(), op->getResults()))
    old.replaceAllUsesWith(now);
  if (takesScale)
    barrier->getResult(1).replaceAllUsesWith(barrier->getOperand(1));
  barrier.erase();
}

namespace {
struct RestoreMarksPass
    : scalify::impl::RestoreMarksPassBase<RestoreMarksPass> {
  void runOnOperation() override {
    getOperation().walk([](stablehlo::OptimizationBarrierOp barrier) {
      if (auto mark = barrier->getAttrOfType<DictionaryAttr>(kMarkAttr))
        restore(barrier, mark);
    });
  }
};
} // namespace
