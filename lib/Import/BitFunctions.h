//===- BitFunctions.h - Functions on the bits of floats ---------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_BITFUNCTIONS_H
#define SCALIFY_LIB_IMPORT_BITFUNCTIONS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify::import {

/// Builds the number next to `from` in the direction of `to`. The element type
/// has infinities.
mlir::Value buildNextAfter(mlir::ImplicitLocOpBuilder &builder,
                           mlir::Value from, mlir::Value to);

/// Builds the upper half of a product of integers of up to 32 bits.
mlir::Value buildMulhi(mlir::ImplicitLocOpBuilder &builder, mlir::Value lhs,
                       mlir::Value rhs);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_BITFUNCTIONS_H
