//===- Shape.cpp - Rules of ops that move data ----------------------------===//

#include "scalify/Scaling/Rules.h"

#include "Moments.h"
#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Dialect/StableHLO/Stacks.h"
#include "scalify/Dialect/StableHLO/Values.h"

#include <cmath>
#include <complex>

using namespace mlir;
using namespace scalify;

static void passFacts(const FactsQuery &query,
                      MutableArrayRef<ScaleFacts> out) {
  out[0] = query.operand(0);
  // Other ops select places, or reverse them.
  if (!isa<stablehlo::BroadcastInDimOp, stablehlo::BroadcastOp,
           stablehlo::ReshapeOp, stablehlo::TransposeOp>(query.op))
    out[0].ramp = {};
  out[0].rule = query.op->getName().stripDialect().str();
}

static void passEachFacts(const FactsQuery &query,
                          MutableArrayRef<ScaleFacts> out) {
  for (auto [i, result] : llvm::enumerate(out)) {
    result = query.operand(i);
    result.rule = query.op->getName().stripDialect().str();
  }
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
                 : mixFacts(next, count / total, out[0]);
  }
  out[0].constant.reset();
  out[0].rule = "concatenate: mean square of the parts";
}

static void padFacts(const FactsQuery &query, MutableArrayRef<ScaleFacts> out) {
  // With this padding the scale of a small tensor would depend on the number of
  // ranks.
  if (query.op->hasAttr(stablehlo::kSharePaddingAttr)) {
    out[0] = query.operand(0);
    out[0].rule = "pad: fills up shares";
    return;
  }
  double share = countElements(query.op->getOperand(0)) /
                 std::max(1.0, countElements(query.op->getResult(0)));
  out[0] = mixFacts(query.operand(0), std::min(1.0, share), query.operand(1));
  out[0].constant.reset();
  out[0].rule = "pad: density of the operand";
}

/// Moments of complex numbers are those of the magnitude. A real splat keeps
/// its value.
static ScaleFacts complexConstantFacts(DenseElementsAttr dense) {
  double squares = 0, count = 0;
  for (const std::complex<APFloat> &z :
       dense.getValues<std::complex<APFloat>>()) {
    double re = z.real().convertToDouble(), im = z.imag().convertToDouble();
    if (dense.isSplat() && im == 0)
      return ScaleFacts::constantOf(re);
    if (!std::isfinite(re) || !std::isfinite(im))
      continue;
    squares += re * re + im * im;
    ++count;
  }
  return ScaleFacts::gaussian(std::sqrt(squares / std::max(count, 1.0)));
}

static void constantFacts(const FactsQuery &query,
                          MutableArrayRef<ScaleFacts> out) {
  auto value =
      cast<ElementsAttr>(cast<stablehlo::ConstantOp>(query.op).getValue());
  auto dense = dyn_cast<DenseElementsAttr>(value);
  out[0].rule = "constant";
  if (!dense)
    return;
  if (isa<FloatType>(dense.getElementType())) {
    if (dense.isSplat()) {
      out[0] = ScaleFacts::constantOf(
          dense.getSplatValue<APFloat>().convertToDouble());
      return;
    }
    double sum = 0, squares = 0, count = 0, bound = 0;
    stablehlo::visitNumbers(dense, [&](double x) {
      if (!std::isfinite(x))
        return;
      sum += x;
      squares += x * x;
      bound = std::max(bound, std::fabs(x));
      ++count;
    });
    count = std::max(count, 1.0);
    out[0] = ScaleFacts::moments(
        sum / count, squares / count - (sum / count) * (sum / count));
    out[0].bound = bound;
    out[0].rule = "constant";
  } else if (isa<ComplexType>(dense.getElementType())) {
    out[0] = complexConstantFacts(dense);
    out[0].rule = "constant";
  } else if (dense.isSplat() && isa<IntegerType>(dense.getElementType())) {
    APInt x = dense.getSplatValue<APInt>();
    out[0] = ScaleFacts::constantOf(
        x.roundToDouble(!stablehlo::hasUnsignedElements(dense.getType())));
    if (x.getBitWidth() == 1)
      out[0].density = x.isZero() ? 0.0 : 1.0;
  }
}

static void iotaFacts(const FactsQuery &query,
                      MutableArrayRef<ScaleFacts> out) {
  auto type = cast<RankedTensorType>(query.op->getResult(0).getType());
  int64_t dim = 0;
  if (auto iota = dyn_cast<stablehlo::IotaOp>(query.op))
    dim = iota.getIotaDimension();
  else
    dim = cast<stablehlo::DynamicIotaOp>(query.op).getIotaDimension();
  double n = static_cast<double>(std::max<int64_t>(1, type.getDimSize(dim)));
  out[0] = ScaleFacts::moments((n - 1) / 2, n * n / 12);
  out[0].bound = n - 1;
  out[0].sign = Sign::NonNegative;
  out[0].rule = "iota";
}

/// A body that multiplies needs true values.
static ScaleFamily scatterFamily(Operation *op) {
  return isHomogeneous(op->getRegion(0)) ? ScaleFamily::Align
                                         : ScaleFamily::True;
}

/// Updates written into an operand: a share of the result comes from the
/// updates. If this share exceeds 1, added updates collide and their squares
/// add.
static void scatterFacts(const FactsQuery &query,
                         MutableArrayRef<ScaleFacts> out) {
  auto scatter = cast<stablehlo::ScatterOp>(query.op);
  Region &computation = scatter.getUpdateComputation();
  Operation *body = getSingleBodyOp(computation);
  bool adds = isa_and_nonnull<stablehlo::AddOp>(body);
  bool chooses = isa_and_nonnull<stablehlo::MaxOp, stablehlo::MinOp>(body) ||
                 llvm::hasSingleElement(computation.front());
  for (auto [i, result] : llvm::enumerate(out)) {
    const ScaleFacts &into = query.of(scatter.getInputs()[i]);
    const ScaleFacts &update = query.of(scatter.getUpdates()[i]);
    double share = countElements(scatter.getUpdates()[i]) /
                   std::max(1.0, countElements(scatter.getInputs()[i]));
    if (!adds) {
      result = mixFacts(update, std::min(1.0, share), into);
      if (!chooses) {
        result.bound = std::numeric_limits<double>::infinity();
        result.sign = Sign::Any;
        result.scaleByBound = false;
      }
    } else {
      double mean = share * update.mean;
      double variance = share * update.rms * update.rms;
      if (into.anyScale)
        variance -= mean * mean;
      else
        mean += into.mean;
      result = ScaleFacts::moments(mean, into.variance() + variance);
      if (into.anyScale || into.sign == update.sign)
        result.sign = update.sign;
    }
    result.constant.reset();
    result.rule = "scatter: density of the updates";
  }
}

static void updateSliceFacts(const FactsQuery &query,
                             MutableArrayRef<ScaleFacts> out) {
  double share = countElements(query.op->getOperand(1)) /
                 std::max(1.0, countElements(query.op->getOperand(0)));
  out[0] = mixFacts(query.operand(1), std::min(1.0, share), query.operand(0));
  out[0].constant.reset();
  out[0].rule = "dynamic_update_slice: mean square of the parts";
}

void scalify::attachShapeRules(MLIRContext *context) {
  using namespace stablehlo;
  attachRule<ScaleFamily::Pass, passFacts, BroadcastInDimOp, BroadcastOp,
             ReshapeOp, TransposeOp, SliceOp, ReverseOp, DynamicSliceOp,
             GatherOp, TorchIndexSelectOp>(context);
  attachRule<ScaleFamily::Pass, passFacts, DynamicBroadcastInDimOp,
             DynamicReshapeOp, DynamicGatherOp, RealDynamicSliceOp,
             SetDimensionSizeOp>(context);
  attachRule<ScaleFamily::PassEach, passEachFacts, OptimizationBarrierOp>(
      context);
  attachRule<ScaleFamily::Align, concatenateFacts, ConcatenateOp>(context);
  attachRule<ScaleFamily::Align, padFacts, PadOp, DynamicPadOp>(context);
  attachRule<scatterFamily, scatterFacts, ScatterOp>(context);
  attachRule<ScaleFamily::Align, updateSliceFacts, DynamicUpdateSliceOp>(
      context);
  attachRule<ScaleFamily::True, constantFacts, ConstantOp>(context);
  attachRule<ScaleFamily::True, iotaFacts, IotaOp, DynamicIotaOp>(context);
}
