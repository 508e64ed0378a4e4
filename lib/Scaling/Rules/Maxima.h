//===- Maxima.h - Differences from the larger of two values -----*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_RULES_MAXIMA_H
#define SCALIFY_LIB_SCALING_RULES_MAXIMA_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"

#include <optional>

namespace scalify {

/// Whether adding the data to the constant leaves the constant, in F32: as of
/// the lowest value that a running maximum starts from.
bool isLostIn(const ScaleFacts &data, const ScaleFacts &constant);

/// The facts of x - max(x, y), as in a softmax that goes on with a running
/// maximum; none if the op is no such difference.
std::optional<ScaleFacts> getBelowLarger(const FactsQuery &query,
                                         mlir::Operation *op);

/// The facts of its exponential: 1 wherever x is the larger.
std::optional<ScaleFacts> getExponentialBelowLarger(const FactsQuery &query,
                                                    mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RULES_MAXIMA_H
