//===- ScaleGradients.cpp - Scale gradients that are stored narrow --------===//
//
// A factor, mu, keeps a sum over ranks within the format: the operand of the
// cast is multiplied by it, and the dequantized data by its inverse. It is
// separate from the scale: a scale from the amax of mu * g would cancel mu.
//
//===----------------------------------------------------------------------===//

#include "DelayedHistory.h"
#include "FreeScales.h"
#include "scalify/Precision/KeptArgument.h"
#include "scalify/Precision/RankMaxima.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Precision/Passes.h"
#include "scalify/Precision/StoredGradients.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

#include <cmath>

namespace scalify {
#define GEN_PASS_DEF_SCALEGRADIENTS
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// FP8-LM, section 2.1: the share of data that may be at the largest value, and
/// the number of steps in which mu doubles.
static constexpr double kMaxShareAtLargest = 1e-5;
static constexpr double kStepsToDouble = 1000;
/// FP8-LM lets mu grow to 2. The minimum is for 1,024 ranks with equal
/// gradients.
static constexpr float kMinMu = 0x1p-10f, kMaxMu = 2.0f;

namespace {
using Casts = SmallVector<QuantizeOp, 2>;

class GradientScaler {
public:
  GradientScaler(func::FuncOp main, int64_t simulatedRanks)
      : main(main), simulatedRanks(simulatedRanks), builder(main.getContext()),
        loc(main.getLoc()) {}

  unsigned collect();
  void scaleByRoot();
  LogicalResult scaleByMu();

private:
  int64_t getGroup(const Casts &casts) const;
  void scale(const Casts &casts, Value factor, Value inverse);
  Value multiply(Value value, Value factor);
  Value countAtLargest(QuantizeOp cast);
  Value getFill(const Casts &casts);
  Value splat(float value, ArrayRef<int64_t> shape);
  Value buildNext(Value mu, Value fill);

  func::FuncOp main;
  int64_t simulatedRanks;
  OpBuilder builder;
  Location loc;
  llvm::MapVector<int64_t, Casts> gradients;
};
} // namespace

static StringRef getPart(QuantizeOp cast) {
  return cast->getAttrOfType<StringAttr>(kGradientPartAttr).getValue();
}

unsigned GradientScaler::collect() {
  main.walk([&](QuantizeOp cast) {
    if (auto index = cast->getAttrOfType<IntegerAttr>(kGradientAttr))
      gradients[index.getInt()].push_back(cast);
  });
  return gradients.size();
}

Value GradientScaler::splat(float value, ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, builder.getF32Type());
  return stablehlo::buildConstant(builder, loc, type, value);
}

/// Builds the product in F32, at the builder's insertion point.
Value GradientScaler::multiply(Value value, Value factor) {
  auto type = cast<RankedTensorType>(value.getType());
  type = type.clone(builder.getF32Type());
  if (value.getType() != type)
    value = stablehlo::ConvertOp::create(builder, loc, type, value);
  Value spread = stablehlo::BroadcastInDimOp::create(builder, loc, type, factor,
                                                     ArrayRef<int64_t>{});
  return stablehlo::MulOp::create(builder, loc, value, spread);
}

/// Scales the casts' operands and their dequantized data. The terms of ranks
/// keep the factor until their sum is read.
void GradientScaler::scale(const Casts &casts, Value factor, Value inverse) {
  for (QuantizeOp quantize : casts) {
    if (getPart(quantize) != kGradientSum) {
      builder.setInsertionPoint(quantize);
      Value scaled = multiply(quantize.getValue(), factor);
      copyPhase(quantize, scaled.getDefiningOp());
      quantize.getValueMutable().assign(scaled);
    }
    if (getPart(quantize) == kGradientRanks)
      continue;
    for (Operation *reader : getCastReaders(quantize)) {
      auto wide = dyn_cast<DequantizeOp>(reader);
      if (!wide)
        continue;
      builder.setInsertionPointAfter(wide);
      Type type = wide.getType();
      wide.getResult().setType(
          cast<RankedTensorType>(type).clone(builder.getF32Type()));
      Value value = multiply(wide, inverse);
      Operation *spared = value.getDefiningOp();
      if (type != value.getType())
        value = stablehlo::ConvertOp::create(builder, loc, type, value);
      wide.getResult().replaceAllUsesExcept(value, spared);
    }
  }
}

/// Returns the number of ranks that sum a gradient.
int64_t GradientScaler::getGroup(const Casts &casts) const {
  for (QuantizeOp quantize : casts) {
    if (auto group = quantize->getAttrOfType<IntegerAttr>(kGradientGroupAttr))
      return group.getInt();
    if (getPart(quantize) == kGradientWhole)
      return 1;
  }
  return simulatedRanks;
}

void GradientScaler::scaleByRoot() {
  for (auto &[index, casts] : gradients) {
    int64_t group = getGroup(casts);
    if (group < 2)
      continue;
    builder.setInsertionPointToStart(&main.getBody().front());
    float factor = 1.0f / std::sqrt(static_cast<float>(group));
    Value value = splat(factor, {}), inverse = splat(1.0f / factor, {});
    scale(casts, value, inverse);
  }
}

/// Builds the number of data at the format's largest value, as I32. Converts
/// the data and does not dequantize them: no pass may give this reader a scale.
Value GradientScaler::countAtLargest(QuantizeOp quantize) {
  builder.setInsertionPointAfter(quantize);
  auto narrow = cast<RankedTensorType>(quantize.getType());
  auto format = cast<FloatType>(narrow.getElementType());
  Value data = stablehlo::ConvertOp::create(builder, loc, quantize.getResult(),
                                            builder.getF32Type());
  data = stablehlo::AbsOp::create(builder, loc, data);
  auto largest = static_cast<float>(getLargestFinite(format));
  Value bound = stablehlo::BroadcastInDimOp::create(
      builder, loc, data.getType(), splat(largest, {}), ArrayRef<int64_t>{});
  Value isAt = stablehlo::CompareOp::create(builder, loc, data, bound,
                                            stablehlo::ComparisonDirection::GE);
  Type i32 = builder.getI32Type();
  Value ones = stablehlo::ConvertOp::create(builder, loc, isAt, i32);
  Value zero = stablehlo::buildIndex(builder, loc, 0);
  return stablehlo::buildReduce<stablehlo::AddOp>(
      builder, loc, ones, zero,
      llvm::to_vector(llvm::seq<int64_t>(0, narrow.getRank())));
}

/// Builds the number of data at the largest value over the number that may be;
/// of several parts, the largest ratio.
Value GradientScaler::getFill(const Casts &casts) {
  Value fill;
  for (QuantizeOp quantize : casts) {
    Value count = countAtLargest(quantize);
    count =
        stablehlo::ConvertOp::create(builder, loc, count, builder.getF32Type());
    int64_t elements =
        cast<RankedTensorType>(quantize.getType()).getNumElements();
    Value most = splat(
        static_cast<float>(kMaxShareAtLargest * static_cast<double>(elements)),
        {});
    Value part = stablehlo::DivOp::create(builder, loc, count, most);
    fill = fill ? stablehlo::MaxOp::create(builder, loc, fill, part).getResult()
                : part;
  }
  return fill;
}

Value GradientScaler::buildNext(Value mu, Value fill) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(mu.getType()).getShape();
  auto growth = static_cast<float>(std::exp2(1.0 / kStepsToDouble));
  Value half = stablehlo::MulOp::create(builder, loc, mu, splat(0.5f, shape));
  Value more = stablehlo::MulOp::create(builder, loc, mu, splat(growth, shape));
  Value isOver =
      stablehlo::CompareOp::create(builder, loc, fill, splat(1.0f, shape),
                                   stablehlo::ComparisonDirection::GT);
  Value next = stablehlo::SelectOp::create(builder, loc, isOver, half, more);
  return stablehlo::ClampOp::create(builder, loc, splat(kMinMu, shape), next,
                                    splat(kMaxMu, shape));
}

LogicalResult GradientScaler::scaleByMu() {
  auto count = static_cast<int64_t>(gradients.size());
  auto type = RankedTensorType::get({count}, builder.getF32Type());
  FailureOr<BlockArgument> kept = addKeptArgument(main, type, kGradientMuName);
  if (failed(kept))
    return failure();
  builder.setInsertionPointToStart(&main.getBody().front());
  Value one = splat(1.0f, {count});
  Value isKept =
      stablehlo::CompareOp::create(builder, loc, *kept, splat(0.0f, {count}),
                                   stablehlo::ComparisonDirection::GT);
  Value mu = stablehlo::SelectOp::create(builder, loc, isKept, *kept, one);
  Value inverse = stablehlo::DivOp::create(builder, loc, one, mu);
  SmallVector<Value> factors = splitEntries(builder, loc, mu);
  SmallVector<Value> inverses = splitEntries(builder, loc, inverse);
  SmallVector<Value> fills;
  auto entry = RankedTensorType::get({1}, builder.getF32Type());
  for (auto [i, gradient] : llvm::enumerate(gradients)) {
    scale(gradient.second, factors[i], inverses[i]);
    Value fill = getFill(gradient.second);
    fills.push_back(stablehlo::ReshapeOp::create(builder, loc, entry, fill));
  }
  Operation *end = main.getBody().front().getTerminator();
  builder.setInsertionPoint(end);
  Value fill =
      stablehlo::ConcatenateOp::create(builder, loc, fills, /*dimension=*/0);
  // Ranks count different parts and must continue with the same mu.
  fill = buildMaxOverRanks(builder, loc, fill);
  end->insertOperands(end->getNumOperands(), buildNext(mu, fill));
  return success();
}

namespace {
struct ScaleGradientsPass
    : scalify::impl::ScaleGradientsBase<ScaleGradientsPass> {
  using ScaleGradientsBase::ScaleGradientsBase;

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal())
      return;
    GradientFormats formats = RecipeAttr::of(getOperation()).getGradients();
    GradientScaler scaler(main, formats.ranks);
    unsigned count = scaler.collect();
    if (count == 0 || formats.scaling == GradientScaling::Minimum)
      return;
    if (formats.scaling == GradientScaling::InverseSqrt) {
      scaler.scaleByRoot();
    } else if (!keepsState) {
      main.emitRemark("mu of gradients stays 1: the caller of the step keeps "
                      "no state between steps");
      return;
    } else if (failed(scaler.scaleByMu())) {
      return signalPassFailure();
    }
    numScaled += count;
  }
};
} // namespace
