//===- Residuals.h - What a prediction lacks of its target ------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_NOISE_RESIDUALS_H
#define SCALIFY_LIB_SCALING_NOISE_RESIDUALS_H

#include "mlir/IR/Operation.h"

#include <optional>

namespace scalify {

/// The operand of a subtraction that is a target: it depends on data alone, and
/// the other could depend on parameters.
std::optional<unsigned> getTargetOperand(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_NOISE_RESIDUALS_H
