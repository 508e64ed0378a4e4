//===- Residuals.h - Residuals of regressions -------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_NOISE_RESIDUALS_H
#define SCALIFY_LIB_SCALING_NOISE_RESIDUALS_H

#include "mlir/IR/Operation.h"

#include <optional>

namespace scalify {

/// True if the op squares a value: a product with itself, elementwise or
/// summed.
bool isSquare(mlir::Operation *op);

/// Returns the operand of a subtraction that is a target: it depends on data
/// alone, while the other operand may depend on parameters. So has a sum that
/// is squared, as u'' + f of a differential equation.
std::optional<unsigned> getTargetOperand(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_NOISE_RESIDUALS_H
