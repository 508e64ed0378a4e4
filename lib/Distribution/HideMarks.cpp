//===- HideMarks.cpp - Encode scale hints as barriers ---------------------===//
//
// The partitioner does not know the scalify dialect. Before scaling, hint ops
// return their operands unchanged, as does an optimization_barrier, through
// which Shardy propagates shardings.
//
//===----------------------------------------------------------------------===//

#include "Marks.h"

#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Distribution/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_HIDEMARKSPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static void hide(Operation *op) {
  OpBuilder b(op);
  SmallVector<Value> operands(op->getOperands());
  // data_scale: the value is itself times 1 until it has a scale.
  for (Value result : op->getResults().drop_front())
    operands.push_back(
        stablehlo::buildConstant(b, op->getLoc(), result.getType(), 1.0f));
  auto barrier = stablehlo::OptimizationBarrierOp::create(
      b, op->getLoc(), ValueRange(operands).getTypes(), operands);
  barrier->setAttr(
      kMarkAttr, b.getDictionaryAttr(
                     {b.getNamedAttr("name", b.getStringAttr(
                                                 op->getName().getStringRef())),
                      b.getNamedAttr("attrs", op->getAttrDictionary())}));
  op->replaceAllUsesWith(barrier->getResults().take_front(op->getNumResults()));
  op->erase();
}

namespace {
struct HideMarksPass : scalify::impl::HideMarksPassBase<HideMarksPass> {
  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      if (isa<DataScaleOp, OverrideScaleOp, RescalePointOp>(op))
        hide(op);
    });
  }
};
} // namespace
