//===- ExpandMeasuredScales.cpp - Expand measured scales into arithmetic --===//

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Precision/Passes.h"

#include "MeasuredScaleOps.h"
#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Precision/RankMaxima.h"
#include "scalify/Scaling/MeasuredArguments.h"

#include "llvm/ADT/TypeSwitch.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDMEASUREDSCALES
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static void replace(Operation *op, ValueRange values) {
  op->replaceAllUsesWith(values);
  op->erase();
}

static void expandMeasured(MeasuredScaleOp op) {
  OpBuilder builder(op);
  Operation *before = op->getPrevNode();
  Value scale =
      op->hasAttr(kUnroundedAttr)
          ? buildRootMeanSquare(builder, op.getLoc(), op.getValue(),
                                op.getBase())
          : buildMeasuredScale(builder, op.getLoc(), op.getValue(),
                               op.getBase(), op.getStatistic(), op.getSample());
  copyPhaseToInserted(op, before);
  replace(op, scale);
}

static void expandMeasuredRows(MeasuredRowScalesOp op) {
  OpBuilder builder(op);
  Operation *before = op->getPrevNode();
  Value scales = buildMeasuredScale(builder, op.getLoc(), op.getValue(),
                                    op.getBase(), op.getStatistic(),
                                    /*sample=*/1, op.getAxes());
  copyPhaseToInserted(op, before);
  replace(op, scales);
}

static void expandRounded(RoundScaleOp op) {
  OpBuilder builder(op);
  replace(op, buildRoundedScale(builder, op.getLoc(), op.getScale()));
}

/// The maximum is over the entries, one for each simulated rank, and over all
/// devices of a mesh.
static void expandShared(SharedScaleOp op) {
  OpBuilder builder(op);
  auto constant = [&](float value) -> Value {
    return stablehlo::buildScalar(builder, op.getLoc(), value);
  };
  Value zero = constant(0.0f);
  Value largest = stablehlo::buildReduce<stablehlo::MaxOp>(
      builder, op.getLoc(), op.getScales(), zero, {0});
  largest = buildMaxOverRanks(builder, op.getLoc(), largest);
  Value isSaid = stablehlo::CompareOp::create(
      builder, op.getLoc(), largest, zero, stablehlo::ComparisonDirection::GT);
  replace(op, stablehlo::SelectOp::create(builder, op.getLoc(), isSaid, largest,
                                          constant(1.0f))
                  ->getResults());
}

static void dropDataScale(DataScaleOp op) {
  OpBuilder builder(op);
  Value one = stablehlo::buildScalar(builder, op.getLoc(), 1.0f);
  replace(op, {op.getValue(), one});
}

namespace {
struct ExpandMeasuredScalesPass
    : scalify::impl::ExpandMeasuredScalesBase<ExpandMeasuredScalesPass> {
  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      llvm::TypeSwitch<Operation *>(op)
          .Case(expandMeasured)
          .Case(expandMeasuredRows)
          .Case(expandRounded)
          .Case(expandShared)
          .Case(dropDataScale)
          .Case<OverrideScaleOp, RescalePointOp>(
              [](Operation *hint) { replace(hint, hint->getOperand(0)); });
    });
  }
};
} // namespace
