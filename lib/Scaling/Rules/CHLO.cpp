//===- CHLO.cpp - Rules of chlo ops ---------------------------------------===//
//
// Import expands most of them. It keeps top_k and ragged_dot, which need rules.
// The others have rules too, so that a pass that runs alone accepts any chlo
// op.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/CHLO/CHLO.h"

#include "Moments.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Scaling/Rules.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

using Results = MutableArrayRef<ScaleFacts>;

static void topKFacts(const FactsQuery &query, Results out) {
  auto topK = cast<chlo::TopKOp>(query.op);
  auto type = cast<RankedTensorType>(topK.getOperand().getType());
  out[0] = getTopKFacts(query.operand(0), static_cast<double>(topK.getK()),
                        static_cast<double>(type.getShape().back()));
  out[0].rule = "top_k: the upper tail";
  out[1].rule = "top_k: indices";
}

/// Functions with a bound.
static void boundedFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &x = query.operand(0);
  double rms = std::min(1.0, x.rms);
  if (isa<chlo::ErfcOp>(query.op)) {
    // 1 - erf(x)
    out[0] = ScaleFacts::moments(1, 0.5 * rms * rms);
    out[0].sign = Sign::NonNegative;
    out[0].bound = 2.0;
  } else {
    bool isAngle = isa<chlo::AsinOp, chlo::AcosOp, chlo::AtanOp>(query.op);
    out[0] = ScaleFacts::gaussian(rms);
    if (isa<chlo::AcosOp>(query.op))
      out[0] = ScaleFacts::moments(M_PI / 2, rms * rms);
    out[0].bound = isAngle ? M_PI : 1.0;
    out[0].sign = isa<chlo::AcosOp>(query.op) ? Sign::NonNegative : x.sign;
  }
  out[0].rule = shortName(query.op) + ": bounded";
}

static void linearNearZeroFacts(const FactsQuery &query, Results out) {
  out[0] = query.operand(0);
  out[0].constant.reset();
  out[0].bound = std::numeric_limits<double>::infinity();
  out[0].indicator = out[0].scaleByBound = out[0].masked = false;
  out[0].rule = shortName(query.op);
}

static void squareRule(const FactsQuery &query, Results out) {
  out[0] = squareFacts(query.operand(0));
  out[0].rule = "square";
}

static void coshFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &x = query.operand(0);
  double variance = std::min(x.variance(), 2.0);
  out[0] = ScaleFacts::moments(std::exp(variance / 2), variance * variance);
  out[0].sign = Sign::NonNegative;
  out[0].rule = "cosh";
}

/// Gamma functions and their like: of the order of their argument.
static void unknownMagnitudeFacts(const FactsQuery &query, Results out) {
  out[0] = ScaleFacts::gaussian(std::max(1.0, query.operand(0).rms));
  out[0].rule = shortName(query.op) + ": of its argument's order, at least 1";
}

static void booleanFacts(const FactsQuery &query, Results out) {
  // Infinities are assumed not to occur.
  out[0] = ScaleFacts::moments(0, 0);
  out[0].density = 0.0;
  out[0].bound = 1.0;
  out[0].rule = shortName(query.op);
}

static void constantLikeFacts(const FactsQuery &query, Results out) {
  auto op = cast<chlo::ConstantLikeOp>(query.op);
  if (auto value = dyn_cast<FloatAttr>(op.getValue()))
    out[0] = ScaleFacts::constantOf(value.getValueAsDouble());
  out[0].rule = "constant";
}

static void constantFacts(const FactsQuery &query, Results out) {
  auto dense =
      dyn_cast<DenseElementsAttr>(cast<chlo::ConstantOp>(query.op).getValue());
  if (dense && dense.isSplat() && isa<FloatType>(dense.getElementType()))
    out[0] = ScaleFacts::constantOf(
        dense.getSplatValue<APFloat>().convertToDouble());
  out[0].rule = "constant";
}

/// An elementwise op that broadcasts. Import lowers it to stablehlo.
static void broadcastingFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  if (isa<chlo::BroadcastMulOp>(query.op))
    out[0] = ScaleFacts::gaussian(a.rms * b.rms);
  else if (isa<chlo::BroadcastDivOp>(query.op))
    out[0] = ScaleFacts::gaussian(a.rms / std::max(b.rms, 1e-30));
  else
    out[0] = ScaleFacts::gaussian(std::hypot(a.rms, b.rms));
  out[0].rule = shortName(query.op);
}

static void untouchedFacts(const FactsQuery &query, Results out) {
  out[0].rule = shortName(query.op);
}

void scalify::attachCHLORules(MLIRContext *context) {
  using namespace chlo;
  attachRaggedDotRules(context);
  attachRule<ScaleFamily::PassEach, topKFacts, TopKOp>(context);
  attachRule<ScaleFamily::True, squareRule, SquareOp>(context);
  attachRule<ScaleFamily::True, boundedFacts, ErfOp, ErfcOp, AsinOp, AcosOp,
             AtanOp, BesselI1eOp>(context);
  attachRule<ScaleFamily::True, linearNearZeroFacts, TanOp, SinhOp, AsinhOp,
             AtanhOp, ErfInvOp, NextAfterOp, BroadcastNextAfterOp>(context);
  attachRule<ScaleFamily::True, linearNearZeroFacts, ConjOp>(context);
  attachRule<ScaleFamily::True, coshFacts, CoshOp>(context);
  attachRule<ScaleFamily::True, unknownMagnitudeFacts, AcoshOp, DigammaOp,
             LgammaOp, PolygammaOp, ZetaOp, BroadcastPolygammaOp,
             BroadcastZetaOp>(context);
  attachRule<ScaleFamily::True, booleanFacts, IsInfOp, IsNegInfOp, IsPosInfOp>(
      context);
  attachRule<ScaleFamily::True, constantLikeFacts, ConstantLikeOp>(context);
  attachRule<ScaleFamily::True, constantFacts, ConstantOp>(context);
  attachRule<ScaleFamily::True, broadcastingFacts, BroadcastAddOp,
             BroadcastSubOp, BroadcastMulOp, BroadcastDivOp, BroadcastMaxOp,
             BroadcastMinOp, BroadcastPowOp, BroadcastRemOp, BroadcastAtan2Op,
             BroadcastComplexOp>(context);
  attachRule<ScaleFamily::Untouched, untouchedFacts, BroadcastAndOp,
             BroadcastOrOp, BroadcastXorOp, BroadcastShiftLeftOp,
             BroadcastShiftRightArithmeticOp, BroadcastShiftRightLogicalOp,
             MulhiOp>(context);
}
