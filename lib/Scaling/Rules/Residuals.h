//===- Residuals.h - What a prediction lacks of its target ------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_RULES_RESIDUALS_H
#define SCALIFY_LIB_SCALING_RULES_RESIDUALS_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"

#include <optional>

namespace scalify {

/// The operand of a subtraction that is a target: it depends on data alone, and
/// the other could depend on parameters.
std::optional<unsigned> getTargetOperand(mlir::Operation *op);

/// x - y under a square, where one depends on parameters and the other on data
/// alone.
bool matchResidual(const FactsQuery &query, ScaleFacts &out);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RULES_RESIDUALS_H
