//===- DelayScales.cpp - Scales from the amaxes of earlier steps ----------===//
//
// The history is one argument and one result of main. The casts' constants
// become entries of a vector that is computed from the history at the start of
// main, where it dominates every body. Loops and branches return amaxes as
// maxima.
//
//===----------------------------------------------------------------------===//

#include "DelayedRows.h"
#include "FreeScales.h"
#include "PlainForm.h"
#include "RowMaxima.h"
#include "scalify/Precision/KeptArgument.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Precision/CastScales.h"
#include "scalify/Precision/Passes.h"
#include "scalify/Scaling/RangeProofs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {
#define GEN_PASS_DEF_DELAYSCALES
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
class Delay {
public:
  Delay(func::FuncOp main, DelayedScaling delayed)
      : main(main), delayed(delayed), rows(findDelayedRows(main)),
        builder(main.getContext()) {}

  LogicalResult run();
  unsigned getNumCasts() const { return rows.rowOf.size(); }

private:
  FailureOr<BlockArgument> addArgument();
  void setScales(Value history);

  func::FuncOp main;
  DelayedScaling delayed;
  DelayedRows rows;
  OpBuilder builder;
};
} // namespace

FailureOr<BlockArgument> Delay::addArgument() {
  auto type = RankedTensorType::get(
      {static_cast<int64_t>(rows.entries.size()), delayed.history},
      builder.getF32Type());
  auto casts = llvm::to_vector_of<StringRef>(rows.names);
  return addKeptArgument(
      main, type, kAmaxHistoryName,
      builder.getNamedAttr(kCastsAttr, builder.getStrArrayAttr(casts)));
}

void Delay::setScales(Value history) {
  builder.setInsertionPointToStart(&main.getBody().front());
  Location loc = main.getLoc();
  Value scales =
      buildDelayedScales(builder, loc, history, delayed, rows.entries);
  SmallVector<Value> entries = splitEntries(builder, loc, scales);
  for (auto [op, row] : rows.rowOf) {
    setCastScale(mlir::cast<QuantizeOp>(op), entries[row]);
    // The proof was about the constant.
    op->removeAttr(kProvedAttr);
    op->removeAttr(kUnprovedAttr);
  }
}

LogicalResult Delay::run() {
  if (rows.entries.empty())
    return success();
  FailureOr<BlockArgument> history = addArgument();
  if (failed(history))
    return failure();
  setScales(*history);
  auto measure = [](OpBuilder &at, QuantizeOp cast) -> SmallVector<Value> {
    return {buildFiniteAmax(at, cast.getLoc(), cast.getValue())};
  };
  SmallVector<Value> amaxes =
      buildRowMaxima(main, rows, /*numStatistics=*/1, measure);
  Operation *end = main.getBody().front().getTerminator();
  builder.setInsertionPoint(end);
  end->insertOperands(
      end->getNumOperands(),
      buildNextHistory(builder, main.getLoc(), *history, amaxes));
  return success();
}

namespace {
struct DelayScalesPass : scalify::impl::DelayScalesBase<DelayScalesPass> {
  void runOnOperation() override {
    RecipeAttr recipe = RecipeAttr::of(getOperation());
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (recipe.getScales() != ScaleSource::Delayed || !main ||
        main.isExternal())
      return;
    Delay delay(main, recipe.getDelayed());
    if (failed(delay.run()))
      return signalPassFailure();
    numDelayed += delay.getNumCasts();
    dropPlainForm(main);
  }
};
} // namespace
