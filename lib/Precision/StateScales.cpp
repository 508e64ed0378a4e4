//===- StateScales.cpp - Scales of packed state from its amaxes -----------===//
//
// A constant scale suits a parameter, whose size hardly changes, but not a
// moment, which falls with the gradient. A step writes by the scale of the amax
// that the last step wrote, with a binade of room, so that one pass over the
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

#include <cmath>

using namespace mlir;
using namespace scalify;

/// The amax of a moment less than doubles in a step unless its gradient jumps.
static constexpr int64_t kRoom = 1;

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
    return {static_cast<float>(getLargestFinite(format)),
            std::ldexp(1.0f, exponent)};
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
  Value next = buildNextScales(builder, loc, *amaxes, stored, kRoom, rows);
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
