//===- Rotations.cpp - Bounds of rotary embeddings ------------------------===//

#include "Transfer.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Idioms/Idioms.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

// Rounding of two products and a sum, and of sine and cosine, which targets
// approximate to an absolute error.
static constexpr double kRotationSlack = 1 + 0x1p-16;

static double getRotationSlack(Type element, FloatType coarsest) {
  double rounding =
      std::max(Rounding::of(coarsest).relative, Rounding::of(element).relative);
  return kRotationSlack * (1 + 8 * rounding);
}

/// cos^2 + sin^2 = 1: each element is at most |(a, b)|.
void scalify::refineRotation(const RangeQuery &query, RangeState &state) {
  std::optional<idioms::Rotation> rotation =
      idioms::matchRotation(query.op, MatchFor::Proof);
  if (!rotation)
    return;
  double slack = getRotationSlack(query.getElement(), rotation->coarsest);
  const RangeState &a = query.lookup(rotation->a);
  const RangeState &b = query.lookup(rotation->b);
  double most = std::hypot(a.maxAbs(), b.maxAbs()) * slack;
  state.lo = std::max(state.lo, -most);
  state.hi = std::min(state.hi, most);
  for (const RangeState *side : {&a, &b})
    for (AxisSet axes : side->getNormAxes())
      state.addL2(axes, std::hypot(a.getL2(axes), b.getL2(axes)) * slack);
}

/// The two halves of a rotated pair, concatenated, keep the pair's norm. If the
/// halves were two slices of one tensor, that is the tensor's norm.
void scalify::refineRotatedPair(const RangeQuery &query, hlo::ConcatenateOp op,
                                RangeState &state) {
  std::optional<idioms::RotatedPair> pair = idioms::matchRotatedPair(op);
  if (!pair)
    return;
  double slack = getRotationSlack(query.getElement(), pair->coarsest);
  const RangeState &a = query.lookup(pair->a), &b = query.lookup(pair->b);
  AxisSet joined = AxisSet(1) << op.getDimension();
  SmallVector<AxisSet, 8> candidates{joined};
  for (const RangeState *side : {&a, &b})
    for (AxisSet axes : side->getNormAxes())
      candidates.push_back(axes | joined);
  for (AxisSet axes : candidates) {
    double norm = std::hypot(a.getL2(axes), b.getL2(axes));
    if (pair->whole)
      norm = std::min(norm, query.lookup(pair->whole).getL2(axes));
    state.addL2(axes, norm * slack);
  }
}
