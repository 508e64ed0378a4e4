//===- CarryScales.cpp - Carry scales of casts across steps ---------------===//
//
// Predicted scales are for the first step, and training moves values away from
// them. So the scales of casts without a proof are one argument and one result
// of main, and move by statistics that the step itself measures.
//
//===----------------------------------------------------------------------===//

#include "CarriedScales.h"
#include "DelayedHistory.h"
#include "DelayedRows.h"
#include "FreeScales.h"
#include "RowMaxima.h"
#include "scalify/Precision/KeptArgument.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Precision/CastScales.h"
#include "scalify/Precision/Passes.h"
#include "scalify/Scaling/Priors.h"
#include "scalify/Scaling/RangeProofs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"

namespace scalify {
#define GEN_PASS_DEF_CARRYSCALES
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// True unless the format is BF16, which has as many binades as F32.
static bool hasNarrowRange(QuantizeOp cast) {
  return !getElementTypeOrSelf(cast.getType()).isBF16();
}

/// Returns the casts that a constant may not fit, and for each whether its
/// scale can be carried.
static SmallVector<std::pair<QuantizeOp, bool>>
findVaryingCasts(func::FuncOp main) {
  llvm::StringSet<> moving = findVaryingArguments(main);
  SmallVector<std::pair<QuantizeOp, bool>> casts;
  main.walk([&](QuantizeOp cast) {
    // A proof is of the largest value. A prior may be off at the other end.
    bool isSettled =
        isProvedToFit(cast, moving) && !cast->hasAttr(kByPriorAttr);
    if (hasNarrowRange(cast) && !isSettled)
      casts.emplace_back(cast, canCarryScale(cast));
  });
  return casts;
}

void scalify::markCarriedCasts(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (RecipeAttr::of(module).getScales() != ScaleSource::Propagated || !main ||
      main.isExternal())
    return;
  for (auto [cast, canCarry] : findVaryingCasts(main))
    if (canCarry)
      cast->setAttr(kCarriedAttr, UnitAttr::get(module.getContext()));
}

void scalify::remarkOnStaticCasts(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (RecipeAttr::of(module).getScales() != ScaleSource::Propagated || !main ||
      main.isExternal())
    return;
  unsigned numChosen = 0, numOthers = 0, numByPrior = 0;
  for (auto [cast, canCarry] : findVaryingCasts(main)) {
    if (cast->hasAttr(kCarriedAttr) || !getScaleExponent(cast.getScale()))
      continue;
    ++(canCarry ? numChosen : numOthers);
    numByPrior += cast->hasAttr(kByPriorAttr) && !isCalibrated(cast);
  }
  if (numChosen > 0)
    main.emitRemark() << numChosen
                      << " casts keep the constant scales of the first step, "
                         "though their values may grow (static scales): "
                         "health reports those that clip";
  if (numOthers > 0)
    main.emitRemark() << numOthers
                      << " casts keep constant scales, though their values may "
                         "grow: their data are state or leave the step, or "
                         "they are in a loop's condition or in a manual "
                         "computation";
  if (numByPrior > 0)
    main.emitRemark() << "the constant scales of " << numByPrior
                      << " casts, which the report marks, depend on guesses "
                         "about training (priors): calibrate them, or "
                         "let steps carry their scales";
}

StringRef scalify::describeScaling(QuantizeOp cast) {
  if (cast->hasAttr(kCarriedAttr))
    return "carried";
  if (!getScaleExponent(cast.getScale()))
    return "measured";
  auto main = cast->getParentOfType<FunctionOpInterface>();
  return isProvedToFit(cast, findVaryingArguments(main)) ? "proved" : "static";
}

namespace {
class Carry {
public:
  Carry(func::FuncOp main, ArrayRef<QuantizeOp> casts)
      : main(main), rows(findRows(casts)), builder(main.getContext()) {}

  LogicalResult run();

private:
  FailureOr<BlockArgument> addArgument();
  SmallVector<CarriedRow> describeRows() const;
  void setScales(Value scales);
  Value buildProduct(QuantizeOp cast, Value measured, Value factor);
  SmallVector<Value> buildStatistics(OpBuilder &at, QuantizeOp cast) const;

  func::FuncOp main;
  DelayedRows rows;
  OpBuilder builder;
  /// The measured scales of casts whose rows hold factors of them.
  DenseMap<Operation *, Value> measuredOf;
};
} // namespace

FailureOr<BlockArgument> Carry::addArgument() {
  auto type = RankedTensorType::get({static_cast<int64_t>(rows.entries.size())},
                                    builder.getF32Type());
  auto casts = llvm::to_vector_of<StringRef>(rows.names);
  return addKeptArgument(
      main, type, kCarriedScalesName,
      builder.getNamedAttr(kCastsAttr, builder.getStrArrayAttr(casts)));
}

SmallVector<CarriedRow> Carry::describeRows() const {
  SmallVector<CarriedRow> described(rows.entries.size());
  for (auto [op, row] : rows.rowOf) {
    auto cast = mlir::cast<QuantizeOp>(op);
    auto format = mlir::cast<FloatType>(getElementTypeOrSelf(cast.getType()));
    CarriedRow own =
        getCarriedRow(cast.getValue(), format, rows.entries[row].predicted);
    own.room = std::max(own.room, described[row].room);
    own.isFactor = measuredOf.contains(op);
    described[row] = own;
  }
  return described;
}

Value Carry::buildProduct(QuantizeOp cast, Value measured, Value factor) {
  OpBuilder::InsertionGuard guard(builder);
  bool isArgument = isa<BlockArgument>(measured) &&
                    measured.getParentBlock() == factor.getParentBlock();
  builder.setInsertionPointAfterValue(isArgument ? factor : measured);
  return stablehlo::MulOp::create(builder, cast.getLoc(), measured, factor);
}

void Carry::setScales(Value scales) {
  SmallVector<Value> entries = splitEntries(builder, main.getLoc(), scales);
  for (auto [op, row] : rows.rowOf) {
    auto cast = mlir::cast<QuantizeOp>(op);
    Value scale = entries[row];
    if (Value measured = measuredOf.lookup(op))
      scale = buildProduct(cast, measured, scale);
    setCastScale(cast, scale);
    // The proof was about the constant.
    op->removeAttr(kProvedAttr);
    op->removeAttr(kUnprovedAttr);
  }
}

/// Builds the statistics of a cast, in units of its measured scale if any.
SmallVector<Value> Carry::buildStatistics(OpBuilder &at,
                                          QuantizeOp cast) const {
  SmallVector<Value> statistics = buildCarriedStatistics(at, cast);
  if (Value measured = measuredOf.lookup(cast))
    statistics.front() = stablehlo::DivOp::create(at, cast.getLoc(),
                                                  statistics.front(), measured);
  return statistics;
}

LogicalResult Carry::run() {
  FailureOr<BlockArgument> state = addArgument();
  if (failed(state))
    return failure();
  Location loc = main.getLoc();
  for (auto [op, row] : rows.rowOf)
    if (Value scale = mlir::cast<QuantizeOp>(op).getScale();
        !getScaleExponent(scale))
      measuredOf[op] = scale;
  SmallVector<CarriedRow> described = describeRows();
  builder.setInsertionPointToStart(&main.getBody().front());
  Value scales = buildCarriedScales(builder, loc, *state, described);
  setScales(scales);
  SmallVector<Value> statistics = buildRowMaxima(
      main, rows, kNumCarriedStatistics, [&](OpBuilder &at, QuantizeOp cast) {
        return buildStatistics(at, cast);
      });
  Operation *end = main.getBody().front().getTerminator();
  builder.setInsertionPoint(end);
  end->insertOperands(
      end->getNumOperands(),
      buildNextCarried(builder, loc, *state, scales, statistics, described));
  return success();
}

namespace {
struct CarryScalesPass : scalify::impl::CarryScalesBase<CarryScalesPass> {
  using CarryScalesBase::CarryScalesBase;

  void runOnOperation() override {
    if (!marked)
      markCarriedCasts(getOperation());
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    SmallVector<QuantizeOp> casts;
    if (main)
      main.walk([&](QuantizeOp cast) {
        if (cast->hasAttr(kCarriedAttr))
          casts.push_back(cast);
      });
    if (casts.empty())
      return;
    if (failed(Carry(main, casts).run()))
      return signalPassFailure();
    numCarried += casts.size();
  }
};
} // namespace
