//===- Hints.cpp - Rules of the user's marks of scales --------------------===//

#include "Hints.h"

#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Scaling/Rules.h"
#include "scalify/Scaling/ScaleArithmetic.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

using Results = MutableArrayRef<ScaleFacts>;

/// Scales the moments. Facts that hold for every element stay.
static ScaleFacts scaled(ScaleFacts facts, double factor) {
  facts.mean *= factor;
  facts.rms *= factor;
  facts.constant.reset();
  return facts;
}

/// The user sets the magnitude; the rules keep the shape of the distribution.
static void overrideFacts(const FactsQuery &query, Results out) {
  auto op = cast<OverrideScaleOp>(query.op);
  out[0] = query.operand(0);
  out[0].rule = "set by the user at run time";
  std::optional<float> scale = getConstantScale(op.getScale());
  if (!scale || !(*scale > 0) || std::isinf(*scale))
    return;
  double rounded = std::exp2(std::floor(std::log2(*scale)));
  ScaleFacts given = query.operand(0);
  given.scaleByBound = false;
  out[0] = given.rms > 0 ? scaled(given, rounded / given.rms)
                         : ScaleFacts::gaussian(rounded);
  out[0].anyScale = false;
  out[0].rule = "set by the user";
}

static void hintFacts(const FactsQuery &query, Results out) {
  out[0] = query.operand(0);
}

static void dataScaleFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &value = query.operand(0);
  double inverse = std::exp2(-value.scaleExponent());
  out[0] = scaled(value, inverse);
  out[0].bound *= inverse;
  out[0].rule = "data of a scaled value";
  out[1].rule = "a scale";
}

void scalify::attachHintRules(MLIRContext *context) {
  attachRule<ScaleFamily::True, overrideFacts, OverrideScaleOp>(context);
  attachRule<ScaleFamily::True, hintFacts, RescalePointOp>(context);
  attachRule<ScaleFamily::True, dataScaleFacts, DataScaleOp>(context);
  attachRule<ScaleFamily::Pass, hintFacts, ScaleHintOp>(context);
}
