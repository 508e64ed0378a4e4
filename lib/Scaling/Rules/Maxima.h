//===- Maxima.h - Differences from the larger of two values -----*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_RULES_MAXIMA_H
#define SCALIFY_LIB_SCALING_RULES_MAXIMA_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"

#include <optional>

namespace scalify {

/// True if adding the data to the constant leaves the constant, in F32, as for
/// the lowest value, from which a running maximum starts.
bool isAbsorbedBy(const ScaleFacts &data, const ScaleFacts &constant);

/// Returns the facts of x - max(x, y), as in a softmax that continues with a
/// running maximum; none if the op is no such difference.
std::optional<ScaleFacts> getMaxDifferenceFacts(const FactsQuery &query,
                                                mlir::Operation *op);

/// Returns the facts of its exponential: 1 wherever x is the larger.
std::optional<ScaleFacts> getMaxDifferenceExpFacts(const FactsQuery &query,
                                                   mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RULES_MAXIMA_H
