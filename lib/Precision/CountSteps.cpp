//===- CountSteps.cpp - The seed and the step of stochastic casts ---------===//

#include "scalify/Precision/KeptArgument.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Precision/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_COUNTSTEPS
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static constexpr StringLiteral kStepName = "scalify.step";

/// Returns (seed, step + 1) from main.
static void returnNextStep(func::FuncOp main, Value step) {
  Operation *end = main.getBody().front().getTerminator();
  OpBuilder builder(end);
  auto type = cast<RankedTensorType>(step.getType());
  Value one =
      stablehlo::buildConstant(builder, main.getLoc(), type,
                               ArrayRef<APInt>{APInt(32, 0), APInt(32, 1)});
  Value next = stablehlo::AddOp::create(builder, main.getLoc(), step, one);
  end->insertOperands(end->getNumOperands(), next);
}

namespace {
struct CountStepsPass : scalify::impl::CountStepsBase<CountStepsPass> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal())
      return;
    SmallVector<QuantizeOp> casts;
    main.walk([&](QuantizeOp cast) {
      if (cast.isStochastic() && !cast.getCounter())
        casts.push_back(cast);
    });
    if (casts.empty())
      return;
    Builder builder(&getContext());
    Type word = builder.getIntegerType(32, /*isSigned=*/false);
    FailureOr<BlockArgument> step =
        addKeptArgument(main, RankedTensorType::get({2}, word), kStepName);
    if (failed(step))
      return signalPassFailure();
    for (QuantizeOp cast : casts)
      cast.getCounterMutable().assign(*step);
    returnNextStep(main, *step);
    numCounted += casts.size();
  }
};
} // namespace
