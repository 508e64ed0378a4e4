//===- RowMaxima.cpp - Maxima of cast statistics by rows ------------------===//
//
// Loops and branches return statistics of their casts as maxima: a maximum has
// the same bits in any order of iterations, casts and ranks.
//
//===----------------------------------------------------------------------===//

#include "RowMaxima.h"

#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Values.h"

using namespace mlir;
using namespace scalify;
using stablehlo::WhileOp;

namespace {
class RowMaxima {
public:
  RowMaxima(const DelayedRows &rows, unsigned numStatistics,
            MeasureCast measureCast, MLIRContext *context)
      : rows(rows), numStatistics(numStatistics), measureCast(measureCast),
        builder(context) {}

  /// Keys are row * numStatistics + statistic.
  using Maxima = llvm::MapVector<unsigned, Value>;
  Maxima measure(Block &block);

private:
  void keepLarger(Maxima &maxima, unsigned entry, Value value);
  Maxima carryOut(Operation *op);
  SmallVector<Maxima> measureRegions(Operation *op);

  const DelayedRows &rows;
  unsigned numStatistics;
  MeasureCast measureCast;
  OpBuilder builder;
};
} // namespace

void RowMaxima::keepLarger(Maxima &maxima, unsigned entry, Value value) {
  Value &known = maxima[entry];
  known = known
              ? stablehlo::MaxOp::create(builder, value.getLoc(), known, value)
                    .getResult()
              : value;
}

/// Builds the maxima of all casts in a block and in the bodies of its ops, as
/// values of the block.
RowMaxima::Maxima RowMaxima::measure(Block &block) {
  Maxima maxima;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto known = rows.rowOf.find(&op); known != rows.rowOf.end()) {
      builder.setInsertionPoint(&op);
      auto cast = mlir::cast<QuantizeOp>(op);
      for (auto [i, value] : llvm::enumerate(measureCast(builder, cast)))
        keepLarger(maxima, known->second * numStatistics + i, value);
    } else if (stablehlo::isControlFlow(&op) &&
               !isa<sdy::ManualComputationOp>(op)) {
      Operation *after = op.getNextNode();
      for (auto [entry, value] : carryOut(&op)) {
        builder.setInsertionPoint(after);
        keepLarger(maxima, entry, value);
      }
    }
  }
  return maxima;
}

SmallVector<RowMaxima::Maxima> RowMaxima::measureRegions(Operation *op) {
  SmallVector<Maxima> perRegion;
  // The condition of a loop cannot return statistics.
  for (Region &region : op->getRegions())
    if (!isa<WhileOp>(op) || region.getRegionNumber() != 0)
      perRegion.push_back(measure(region.front()));
  return perRegion;
}

/// Adds a carry to a loop, or a result to branches, for each entry that their
/// regions compute.
RowMaxima::Maxima RowMaxima::carryOut(Operation *op) {
  SmallVector<Maxima> perRegion = measureRegions(op);
  Maxima found;
  for (const Maxima &maxima : perRegion)
    for (auto [entry, value] : maxima)
      found[entry] = value;
  if (found.empty())
    return found;
  Location loc = op->getLoc();
  Type type = RankedTensorType::get({}, builder.getF32Type());
  SmallVector<Value> starts;
  auto loop = dyn_cast<WhileOp>(op);
  for (auto [entry, value] : found) {
    if (loop) {
      builder.setInsertionPoint(op);
      starts.push_back(stablehlo::buildScalar(builder, loc, 0.0f));
      loop.getCond().addArgument(type, loc);
      Value carry = loop.getBody().addArgument(type, loc);
      Operation *end = loop.getBody().front().getTerminator();
      builder.setInsertionPoint(end);
      Value larger = stablehlo::MaxOp::create(builder, loc, carry,
                                              perRegion.back()[entry]);
      end->insertOperands(end->getNumOperands(), larger);
      continue;
    }
    for (auto [region, maxima] : llvm::zip(op->getRegions(), perRegion)) {
      Operation *end = region.front().getTerminator();
      builder.setInsertionPoint(end);
      Value own = maxima.lookup(entry);
      end->insertOperands(end->getNumOperands(),
                          own ? own
                              : stablehlo::buildScalar(builder, loc, 0.0f));
    }
  }
  unsigned first = op->getNumResults();
  Operation *wider = stablehlo::extendControlFlow(
      op, starts, SmallVector<Type>(found.size(), type));
  for (auto [i, entry] : llvm::enumerate(found))
    entry.second = wider->getResult(first + i);
  return found;
}

SmallVector<Value> scalify::buildRowMaxima(func::FuncOp main,
                                           const DelayedRows &rows,
                                           unsigned numStatistics,
                                           MeasureCast measure) {
  RowMaxima::Maxima maxima =
      RowMaxima(rows, numStatistics, measure, main.getContext())
          .measure(main.getBody().front());
  OpBuilder builder(main.getBody().front().getTerminator());
  Value nothing;
  SmallVector<Value> ordered;
  for (unsigned i = 0, end = rows.entries.size() * numStatistics; i != end;
       ++i) {
    Value found = maxima.lookup(i);
    if (!found && !nothing)
      nothing = stablehlo::buildScalar(builder, main.getLoc(), 0.0f);
    ordered.push_back(found ? found : nothing);
  }
  return ordered;
}

Value scalify::buildVector(OpBuilder &builder, Location loc,
                           ArrayRef<Value> entries) {
  auto one = RankedTensorType::get({1}, builder.getF32Type());
  auto vectors = llvm::map_to_vector(entries, [&](Value entry) -> Value {
    return stablehlo::ReshapeOp::create(builder, loc, one, entry);
  });
  return stablehlo::ConcatenateOp::create(builder, loc, vectors,
                                          /*dimension=*/0);
}
