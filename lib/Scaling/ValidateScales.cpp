//===- ValidateScales.cpp - Check the contract of the Scaling stage -------===//

#include "scalify/Scaling/Passes.h"

#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Scaling/ScaleAnalysis.h"
#include "scalify/Scaling/ScaleArithmetic.h"

#include <cmath>

namespace scalify {
#define GEN_PASS_DEF_VALIDATESCALES
#include "scalify/Scaling/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static LogicalResult checkScale(ScaleHintOp op) {
  std::optional<float> scale = getConstantScale(op.getScale());
  int exponent;
  if (scale && !(*scale > 0 && std::frexp(*scale, &exponent) == 0.5f))
    return op.emitOpError("has the scale ")
           << *scale << ", not a positive power of two";
  return success();
}

static LogicalResult checkDot(stablehlo::DotGeneralOp dot) {
  for (auto [i, operand] : llvm::enumerate(dot->getOperands()))
    if (llvm::all_of(dot->getOperandTypes(), isScalableTensor) &&
        !operand.getDefiningOp<ScaleHintOp>())
      return dot.emitOpError("has no scale on operand ")
             << i << ": run scalify-propagate";
  return success();
}

namespace {
struct ValidateScalesPass
    : scalify::impl::ValidateScalesBase<ValidateScalesPass> {
  void runOnOperation() override {
    WalkResult result = getOperation().walk([](Operation *op) -> WalkResult {
      if (auto hint = dyn_cast<ScaleHintOp>(op))
        return checkScale(hint);
      auto dot = dyn_cast<stablehlo::DotGeneralOp>(op);
      if (dot && stablehlo::isProgramCode(dot))
        return checkDot(dot);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
