//===- Shape.cpp - Rules of ops that move data ----------------------------===//

#include "scalify/Scaling/Rules.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

static void passFacts(const FactsQuery &query,
                      MutableArrayRef<ScaleFacts> out) {
  out[0] = query.operand(0);
  out[0].rule = query.op->getName().stripDialect().str();
}

static void passEachFacts(const FactsQuery &query,
                          MutableArrayRef<ScaleFacts> out) {
  for (auto [i, result] : llvm::enumerate(out))
    result = query.operand(i);
}

/// A mixture of two sources with shares `share` and 1 - share.
static ScaleFacts mix(const ScaleFacts &a, double share, const ScaleFacts &b) {
  // -inf and its like keep the partner's facts and count as masked.
  if (b.anyScale && !(b.constant && *b.constant == 0)) {
    ScaleFacts facts = a;
    facts.density *= share;
    return facts;
  }
  double second = share * a.rms * a.rms + (1 - share) * b.rms * b.rms;
  double mean = share * a.mean + (1 - share) * b.mean;
  ScaleFacts facts = ScaleFacts::moments(mean, second - mean * mean);
  facts.bound = std::max(a.bound, b.bound);
  facts.sign = a.sign == b.sign || b.anyScale ? a.sign : Sign::Any;
  facts.scaleByBound = a.scaleByBound && (b.anyScale || b.scaleByBound);
  facts.anyScale = a.anyScale && b.anyScale;
  return facts;
}

static void concatenateFacts(const FactsQuery &query,
                             MutableArrayRef<ScaleFacts> out) {
  double total = 0;
  for (Value operand : query.op->getOperands()) {
    double count = countElements(operand);
    const ScaleFacts &next = query.of(operand);
    total += count;
    out[0] = total == count || out[0].anyScale
                 ? next
                 : mix(next, count / total, out[0]);
  }
  out[0].constant.reset();
  out[0].rule = "concatenate: mean square of the parts";
}

static void padFacts(const FactsQuery &query, MutableArrayRef<ScaleFacts> out) {
  double share = countElements(query.op->getOperand(0)) /
                 std::max(1.0, countElements(query.op->getResult(0)));
  out[0] = mix(query.operand(0), std::min(1.0, share), query.operand(1));
  out[0].rule = "pad: density of the operand";
}

static void constantFacts(const FactsQuery &query,
                          MutableArrayRef<ScaleFacts> out) {
  auto value =
      cast<ElementsAttr>(cast<stablehlo::ConstantOp>(query.op).getValue());
  auto dense = dyn_cast<DenseElementsAttr>(value);
  out[0].rule = "constant";
  if (!dense)
    return;
  auto asDouble = [](const APFloat &x) {
    bool loses;
    APFloat wide = x;
    wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
    return wide.convertToDouble();
  };
  if (isa<FloatType>(dense.getElementType())) {
    if (dense.isSplat()) {
      out[0] = ScaleFacts::constantOf(asDouble(dense.getSplatValue<APFloat>()));
      return;
    }
    double sum = 0, squares = 0, count = 0, bound = 0;
    for (const APFloat &element : dense.getValues<APFloat>()) {
      double x = asDouble(element);
      if (!std::isfinite(x))
        continue;
      sum += x;
      squares += x * x;
      bound = std::max(bound, std::fabs(x));
      ++count;
    }
    count = std::max(count, 1.0);
    out[0] = ScaleFacts::moments(
        sum / count, squares / count - (sum / count) * (sum / count));
    out[0].bound = bound;
    out[0].rule = "constant";
  } else if (dense.isSplat() && isa<IntegerType>(dense.getElementType())) {
    APInt x = dense.getSplatValue<APInt>();
    out[0] = ScaleFacts::constantOf(static_cast<double>(
        x.getBitWidth() == 1 ? x.getZExtValue() : x.getSExtValue()));
    if (x.getBitWidth() == 1)
      out[0].density = x.isZero() ? 0.0 : 1.0;
  }
}

static void iotaFacts(const FactsQuery &query,
                      MutableArrayRef<ScaleFacts> out) {
  auto iota = cast<stablehlo::IotaOp>(query.op);
  double n = static_cast<double>(cast<RankedTensorType>(iota.getType())
                                     .getDimSize(iota.getIotaDimension()));
  out[0] = ScaleFacts::moments((n - 1) / 2, n * n / 12);
  out[0].bound = n - 1;
  out[0].sign = Sign::NonNegative;
  out[0].rule = "iota";
}

/// Updates written into an operand: a share of the result comes from the
/// updates. Added updates of a share above 1 collide, and their squares add.
static void scatterFacts(const FactsQuery &query,
                         MutableArrayRef<ScaleFacts> out) {
  auto scatter = cast<stablehlo::ScatterOp>(query.op);
  for (auto [i, result] : llvm::enumerate(out)) {
    const ScaleFacts &into = query.of(scatter.getInputs()[i]);
    const ScaleFacts &update = query.of(scatter.getUpdates()[i]);
    double share = countElements(scatter.getUpdates()[i]) /
                   std::max(1.0, countElements(scatter.getInputs()[i]));
    if (into.anyScale) {
      double mean = share * update.mean;
      result = ScaleFacts::moments(mean, share * update.rms * update.rms -
                                             mean * mean);
      result.sign = update.sign;
    } else {
      result = ScaleFacts::moments(into.mean + share * update.mean,
                                   into.variance() +
                                       share * update.rms * update.rms);
    }
    result.rule = "scatter: density of the updates";
  }
}

static void updateSliceFacts(const FactsQuery &query,
                             MutableArrayRef<ScaleFacts> out) {
  double share = countElements(query.op->getOperand(1)) /
                 std::max(1.0, countElements(query.op->getOperand(0)));
  out[0] = mix(query.operand(1), std::min(1.0, share), query.operand(0));
  out[0].constant.reset();
  out[0].rule = "dynamic_update_slice: mean square of the parts";
}

void scalify::attachShapeRules(MLIRContext *context) {
  using namespace stablehlo;
  attachRule<ScaleFamily::Pass, passFacts, BroadcastInDimOp, ReshapeOp,
             TransposeOp, SliceOp, DynamicSliceOp, GatherOp>(context);
  attachRule<ScaleFamily::True, passEachFacts, OptimizationBarrierOp>(context);
  attachRule<ScaleFamily::Align, concatenateFacts, ConcatenateOp>(context);
  attachRule<ScaleFamily::Align, padFacts, PadOp>(context);
  attachRule<ScaleFamily::Align, scatterFacts, ScatterOp>(context);
  attachRule<ScaleFamily::Align, updateSliceFacts, DynamicUpdateSliceOp>(
      context);
  attachRule<ScaleFamily::True, constantFacts, ConstantOp>(context);
  attachRule<ScaleFamily::True, iotaFacts, IotaOp>(context);
}
