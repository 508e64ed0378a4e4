//===- StateScales.cpp - Scales of packed state from its amaxes -----------===//
//
// A constant scale suits a parameter, whose size hardly changes, but not a
// moment, which falls with the gradient. A step writes by the scale of the amax
// that the last step wrote, with room for growth, so that one pass over the
// data suffices. Both scales and amaxes are state of main.
//
//===----------------------------------------------------------------------===//

#include "StateScales.h"

#include "DelayedHistory.h"
#include "FreeScales.h"
#include "scalify/Precision/KeptArgument.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Precision/StoredState.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace scalify;

/// Binades of normal numbers below the amax that state needs. What a format has
/// beyond is room.
static constexpr int kKept = 20;

/// Returns how many binades state may grow in one step. The amax of a moment
/// less than doubles unless its gradient jumps. That of a parameter may grow
/// more: a bias starts at zero and crosses it, and rates of learning warm up.
static int getRoom(FloatType format) {
  const llvm::fltSemantics &semantics = format.getFloatSemantics();
  int normal = llvm::ilogb(APFloat::getLargest(semantics)) -
               llvm::ilogb(APFloat::getSmallestNormalized(semantics)) + 1;
  return std::clamp(normal - kKept, 1, 10);
}

bool scalify::measuresStateScales(RecipeAttr recipe) {
  ScaleSource scales = recipe.getScales();
  return scales == ScaleSource::Current || scales == ScaleSource::Block ||
         scales == ScaleSource::Delayed;
}

namespace {
class StateScales {
public:
  StateScales(func::FuncOp main, ArrayRef<QuantizeOp> casts)
      : main(main), casts(casts), builder(main.getContext()),
        loc(main.getLoc()) {
    type = RankedTensorType::get({static_cast<int64_t>(casts.size())},
                                 builder.getF32Type());
  }
  FailureOr<SmallVector<Value>> run();

private:
  SmallVector<HistoryRow> getRows();
  Value measure(QuantizeOp cast);
  void setScale(QuantizeOp cast, Value scale);

  func::FuncOp main;
  ArrayRef<QuantizeOp> casts;
  OpBuilder builder;
  Location loc;
  RankedTensorType type;
};
} // namespace

SmallVector<HistoryRow> StateScales::getRows() {
  return llvm::map_to_vector(casts, [](QuantizeOp cast) -> HistoryRow {
    auto format = mlir::cast<FloatType>(getElementTypeOrSelf(cast.getType()));
    auto exponent = static_cast<int>(*getScaleExponent(cast.getScale()));
    auto largest = static_cast<float>(getLargestFinite(format));
    return {std::ldexp(largest, -getRoom(format)), std::ldexp(1.0f, exponent)};
  });
}

/// Returns the broadcast floor that keeps a root from zero; null for other
/// values.
static stablehlo::BroadcastInDimOp getFloor(QuantizeOp cast) {
  auto root = cast.getValue().getDefiningOp<stablehlo::MaxOp>();
  auto floor = root ? root.getRhs().getDefiningOp<stablehlo::MulOp>()
                    : stablehlo::MulOp();
  return floor ? floor.getRhs().getDefiningOp<stablehlo::BroadcastInDimOp>()
               : stablehlo::BroadcastInDimOp();
}

static bool isRoot(QuantizeOp cast) {
  return cast->getAttrOfType<StringAttr>(kStateAttr).getValue() == kStateRoot;
}

/// Builds the amax of the written value, without the floor, which depends on
/// the scale.
Value StateScales::measure(QuantizeOp cast) {
  builder.setInsertionPoint(cast);
  Value value = cast.getValue();
  if (isRoot(cast))
    value = value.getDefiningOp()->getOperand(0);
  return buildFiniteAmax(builder, cast.getLoc(), value);
}

void StateScales::setScale(QuantizeOp cast, Value scale) {
  setCastScale(cast, scale);
  if (!isRoot(cast))
    return;
  auto format = mlir::cast<FloatType>(getElementTypeOrSelf(cast.getType()));

  float smallest =
      APFloat::getSmallest(format.getFloatSemantics()).convertToDouble();
  Value least = stablehlo::buildScalar(builder, loc, smallest);
  least = stablehlo::MulOp::create(builder, loc, scale, least);
  getFloor(cast)->setOperand(0, least);
}

FailureOr<SmallVector<Value>> StateScales::run() {
  FailureOr<BlockArgument> scales =
      addKeptArgument(main, type, kStateScalesName);
  FailureOr<BlockArgument> amaxes = addKeptArgument(main, type, kStateAmaxName);
  if (failed(scales) || failed(amaxes))
    return failure();
  SmallVector<HistoryRow> rows = getRows();
  builder.setInsertionPointToStart(&main.getBody().front());
  Value stored = buildStoredScales(builder, loc, *scales, rows);
  Value next = buildNextScales(builder, loc, *amaxes, stored, rows);
  SmallVector<Value> read = splitEntries(builder, loc, stored);
  SmallVector<Value> written = splitEntries(builder, loc, next);
  for (auto [cast, scale] : llvm::zip(casts, written))
    setScale(cast, scale);
  SmallVector<Value> measured;
  for (QuantizeOp cast : casts)
    measured.push_back(measure(cast));
  Operation *end = main.getBody().front().getTerminator();
  builder.setInsertionPoint(end);
  Value seen = buildNextAmaxes(builder, loc, *amaxes, measured);
  end->insertOperands(end->getNumOperands(), {next, seen});
  return read;
}

FailureOr<SmallVector<Value>>
scalify::measureStateScales(func::FuncOp main, ArrayRef<QuantizeOp> casts) {
  return StateScales(main, casts).run();
}
