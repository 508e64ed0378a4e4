//===- RescaleFunction.cpp - Build the function @rescale ------------------===//
//
// If scales are an argument of a step, @rescale maps the scales and counters of
// the last step to new scales. It is StableHLO like the step itself, so that
// the same stages compile it and its text can be read. Scales move by factors
// that are powers of two, which is exact and needs neither log nor exp.
//
//===----------------------------------------------------------------------===//

#include "scalify/Precision/RescaleFunction.h"
#include "scalify/Dialect/Scalify/Donation.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Precision/CastScales.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <limits>

using namespace mlir;
using namespace scalify;

namespace {
/// Moves a scale by `factor` if more than `share` of the values are counted.
struct Move {
  double share;
  float factor;
};

/// Builds elementwise arithmetic on vectors of one entry per cast.
class VectorBuilder {
public:
  VectorBuilder(OpBuilder &builder, Location loc, ArrayRef<CountedCast> casts)
      : builder(builder), loc(loc), casts(casts),
        type(RankedTensorType::get({static_cast<int64_t>(casts.size())},
                                   builder.getF32Type())) {}

  Value splat(float x) {
    return stablehlo::buildConstant(builder, loc, type, x);
  }
  Value column(Value counts, int64_t index);
  Value factor(Value counts, ArrayRef<Move> moves);
  Value selectWhereZero(Value counts, Value value);

private:
  Value limits(double share);

  OpBuilder &builder;
  Location loc;
  ArrayRef<CountedCast> casts;
  RankedTensorType type;
};
} // namespace

/// Builds the number of values that is `share` of each cast; infinity if the
/// cast reads no entry, so that its scale never moves.
Value VectorBuilder::limits(double share) {
  auto counts = llvm::map_to_vector(casts, [&](const CountedCast &cast) {
    return cast.moves ? static_cast<float>(share * double(cast.elements))
                      : std::numeric_limits<float>::infinity();
  });
  return stablehlo::buildConstant(builder, loc, type, ArrayRef<float>(counts));
}

Value VectorBuilder::column(Value counts, int64_t index) {
  Value column =
      stablehlo::SliceOp::create(builder, loc, counts, 1, index, index + 1);
  return stablehlo::ReshapeOp::create(builder, loc, type, column);
}

Value VectorBuilder::factor(Value counts, ArrayRef<Move> moves) {
  Value product = splat(1.0f);
  for (const Move &move : moves) {
    Value isAbove =
        stablehlo::CompareOp::create(builder, loc, counts, limits(move.share),
                                     stablehlo::ComparisonDirection::GT);
    Value factor = stablehlo::SelectOp::create(builder, loc, isAbove,
                                               splat(move.factor), splat(1.0f));
    product = stablehlo::MulOp::create(builder, loc, product, factor);
  }
  return product;
}

/// Selects `value` where the count is zero, else 1.
Value VectorBuilder::selectWhereZero(Value counts, Value value) {
  Value isZero = stablehlo::CompareOp::create(
      builder, loc, counts, splat(0.0f), stablehlo::ComparisonDirection::EQ);
  return stablehlo::SelectOp::create(builder, loc, isZero, value, splat(1.0f));
}

// Saturated, flushed, zeros, NaNs, values at the top, scale.
static constexpr int64_t kNumWords = 6;

static func::FuncOp createFunction(OpBuilder &builder, Location loc,
                                   int64_t rows) {
  auto scales = RankedTensorType::get({rows}, builder.getF32Type());
  auto counters = RankedTensorType::get(
      {rows, kNumWords}, builder.getIntegerType(64, /*isSigned=*/false));
  auto function = func::FuncOp::create(
      builder, loc, kRescaleFunction,
      builder.getFunctionType({scales, counters}, {scales}));
  function.addEntryBlock();
  auto name = [&](unsigned index, StringRef text) {
    function.setArgAttr(index, kNameAttr, builder.getStringAttr(text));
  };
  name(0, kCastScalesName);
  name(1, "scalify.counters");
  function.setArgAttr(0, kRoleAttr,
                      RoleAttr::get(builder.getContext(), Role::State));
  function.setArgAttr(1, kRoleAttr,
                      RoleAttr::get(builder.getContext(), Role::Input));
  function.setArgAttr(0, kAliasAttr, builder.getI32IntegerAttr(0));
  function.setResultAttr(0, "jax.result_info",
                         builder.getStringAttr(kCastScalesName));
  return function;
}

void scalify::buildRescaleFunction(ModuleOp module,
                                   ArrayRef<CountedCast> casts) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Location loc = builder.getUnknownLoc();
  func::FuncOp function =
      createFunction(builder, loc, static_cast<int64_t>(casts.size()));
  builder.setInsertionPointToEnd(&function.getBody().front());
  VectorBuilder vectors(builder, loc, casts);
  Value scales = function.getArgument(0);
  Value counts = stablehlo::ConvertOp::create(
      builder, loc, function.getArgument(1), builder.getF32Type());
  Value saturated = vectors.column(counts, 0);
  Value flushed = vectors.column(counts, 1);
  // If three in ten values saturate, the counts do not show how far the scale
  // is off. Eight binades up are at most six too many for a normal
  // distribution: its values are then still not flushed in any format, and the
  // rule below moves the scale down again.
  Value up = vectors.factor(
      saturated, {{0x1p-12, 2.0f}, {0.01, 2.0f}, {0.1, 4.0f}, {0.3, 16.0f}});
  Value down =
      vectors.factor(flushed, {{0.02, 0.5f}, {0.1, 0.5f}, {0.5, 0.25f}});
  // If most values are flushed while the largest are at the top, as in a nearly
  // one-hot softmax, a move down, by at most 4 binades, would clip the largest.
  down = vectors.selectWhereZero(vectors.column(counts, 4), down);
  Value moved = stablehlo::MulOp::create(
      builder, loc, stablehlo::MulOp::create(builder, loc, scales, up), down);
  // Beyond 2^100 a scale's inverse would have no headroom.
  moved = stablehlo::ClampOp::create(builder, loc, vectors.splat(0x1p-100f),
                                     moved, vectors.splat(0x1p100f));
  func::ReturnOp::create(builder, loc, moved);
}
