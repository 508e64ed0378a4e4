//===- SharpSoftmax.cpp - The elements of a softmax that matter -----------===//
//
// exp(x - max(x)) is all ones while attention is diffuse, and a single one when
// it is sharp. Training leads from the first to the second, which the initial
// variance of the scores does not predict.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Priors.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Idioms/Idioms.h"
#include "scalify/Scaling/Rules.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

static bool refine(const FactsQuery &query, double power, ScaleFacts &facts) {
  if (!isa<stablehlo::ExpOp>(query.op))
    return false;
  auto softmax = idioms::matchMaxSubtraction(
      peelToSource(query.op->getOperand(0)), MatchFor::Estimate);
  if (!softmax)
    return false;
  double n = std::max(1.0, softmax->width * query.operand(0).density);
  double mean = std::pow(n, power - 1);
  facts.mean = mean;
  facts.rms = std::sqrt(mean);
  facts.rule = "prior: N^(1/2) elements of a softmax matter";
  return true;
}

const Prior scalify::kSharpSoftmax = {
    "sharp-softmax", "of N elements of a softmax a power of N matter", 0.5,
    "half-way from all of them to one", refine};
