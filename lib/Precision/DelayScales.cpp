//===- DelayScales.cpp - Scales from the amaxes of earlier steps ----------===//
//
// The history is one argument and one result of main. The casts' constants
// become entries of a vector that the history gives at the step's begin, which
// every body can read; amaxes go the other way, out of loops and branches, as
// maxima.
//
//===----------------------------------------------------------------------===//

#include "DelayedRows.h"
#include "FreeScales.h"
#include "KeptArgument.h"
#include "PlainForm.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Precision/CastScales.h"
#include "scalify/Precision/Passes.h"
#include "scalify/Scaling/RangeProofs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace scalify {
#define GEN_PASS_DEF_DELAYSCALES
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using stablehlo::WhileOp;

namespace {
class Delay {
public:
  Delay(func::FuncOp main, DelayedScaling delayed)
      : main(main), delayed(delayed), rows(findDelayedRows(main)),
        builder(main.getContext()) {}

  LogicalResult run();
  unsigned getNumCasts() const { return rows.rowOf.size(); }

private:
  using Amaxes = llvm::MapVector<unsigned, Value>;
  FailureOr<BlockArgument> addArgument();
  void setScales(Value history);
  void keepLarger(Amaxes &amaxes, unsigned row, Value amax);
  Amaxes measure(Block &block);
  Amaxes carryOut(Operation *op);
  SmallVector<Amaxes> measureRegions(Operation *op);
  Value zero(Location loc);

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
    // A proof was of the constant.
    op->removeAttr(kProvedAttr);
    op->removeAttr(kUnprovedAttr);
  }
}

Value Delay::zero(Location loc) {
  auto type = RankedTensorType::get({}, builder.getF32Type());
  return stablehlo::ConstantOp::create(
      builder, loc,
      mlir::cast<ElementsAttr>(DenseElementsAttr::get(type, 0.0f)));
}

void Delay::keepLarger(Amaxes &amaxes, unsigned row, Value amax) {
  Value &entry = amaxes[row];
  entry = entry ? stablehlo::MaxOp::create(builder, amax.getLoc(), entry, amax)
                      .getResult()
                : amax;
}

/// The amaxes of all casts in a block and in the bodies of its ops, as values
/// of the block.
Delay::Amaxes Delay::measure(Block &block) {
  Amaxes amaxes;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto known = rows.rowOf.find(&op); known != rows.rowOf.end()) {
      builder.setInsertionPoint(&op);
      auto cast = mlir::cast<QuantizeOp>(op);
      Value amax = buildFiniteAmax(builder, op.getLoc(), cast.getValue());
      keepLarger(amaxes, known->second, amax);
    } else if (stablehlo::isControlFlow(&op) &&
               !isa<sdy::ManualComputationOp>(op)) {
      Operation *after = op.getNextNode();
      for (auto [row, amax] : carryOut(&op)) {
        builder.setInsertionPoint(after);
        keepLarger(amaxes, row, amax);
      }
    }
  }
  return amaxes;
}

SmallVector<Delay::Amaxes> Delay::measureRegions(Operation *op) {
  SmallVector<Amaxes> perRegion;
  // What a loop's condition casts, nothing carries out.
  for (Region &region : op->getRegions())
    if (!isa<WhileOp>(op) || region.getRegionNumber() != 0)
      perRegion.push_back(measure(region.front()));
  return perRegion;
}

/// Adds to a loop a carry, to branches a result for each row that they cast by.
Delay::Amaxes Delay::carryOut(Operation *op) {
  SmallVector<Amaxes> perRegion = measureRegions(op);
  Amaxes found;
  for (const Amaxes &amaxes : perRegion)
    for (auto [row, amax] : amaxes)
      found[row] = amax;
  if (found.empty())
    return found;
  Location loc = op->getLoc();
  Type type = RankedTensorType::get({}, builder.getF32Type());
  SmallVector<Value> starts;
  auto loop = dyn_cast<WhileOp>(op);
  for (auto [row, amax] : found) {
    if (loop) {
      builder.setInsertionPoint(op);
      starts.push_back(zero(loc));
      loop.getCond().addArgument(type, loc);
      Value carry = loop.getBody().addArgument(type, loc);
      Operation *end = loop.getBody().front().getTerminator();
      builder.setInsertionPoint(end);
      Value larger =
          stablehlo::MaxOp::create(builder, loc, carry, perRegion.back()[row]);
      end->insertOperands(end->getNumOperands(), larger);
      continue;
    }
    for (auto [region, amaxes] : llvm::zip(op->getRegions(), perRegion)) {
      Operation *end = region.front().getTerminator();
      builder.setInsertionPoint(end);
      Value own = amaxes.lookup(row);
      end->insertOperands(end->getNumOperands(), own ? own : zero(loc));
    }
  }
  unsigned first = op->getNumResults();
  Operation *wider = stablehlo::extendControlFlow(
      op, starts, SmallVector<Type>(found.size(), type));
  for (auto [i, entry] : llvm::enumerate(found))
    entry.second = wider->getResult(first + i);
  return found;
}

LogicalResult Delay::run() {
  if (rows.entries.empty())
    return success();
  FailureOr<BlockArgument> history = addArgument();
  if (failed(history))
    return failure();
  setScales(*history);
  Block &body = main.getBody().front();
  Amaxes amaxes = measure(body);
  SmallVector<Value> ordered;
  for (unsigned row = 0; row != rows.entries.size(); ++row)
    ordered.push_back(amaxes.lookup(row));
  Operation *end = body.getTerminator();
  builder.setInsertionPoint(end);
  end->insertOperands(
      end->getNumOperands(),
      buildNextHistory(builder, main.getLoc(), *history, ordered));
  return success();
}

namespace {
struct DelayScalesPass : scalify::impl::DelayScalesBase<DelayScalesPass> {
  using DelayScalesBase::DelayScalesBase;

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
