//===- Decays.h - Sums along an axis, and decays ----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_RULES_DECAYS_H
#define SCALIFY_LIB_SCALING_RULES_DECAYS_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// S_i - S_j for entries of one cumulative sum S: sums of the places between.
bool matchSegmentSum(const FactsQuery &query, ScaleFacts &out);
/// exp of such differences, if S falls and i is after j: at most 1.
bool matchDecay(const FactsQuery &query, ScaleFacts &out);
/// Returns the growth of sizes along a cumulative sum; flat for another window.
Ramp getRampOfSum(stablehlo::ReduceWindowOp op, const ScaleFacts &sum);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RULES_DECAYS_H
