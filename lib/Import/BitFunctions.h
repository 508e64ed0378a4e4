//===- BitFunctions.h - Functions of a number's bits ------------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_BITFUNCTIONS_H
#define SCALIFY_LIB_IMPORT_BITFUNCTIONS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify::import {

/// The number of `from`'s type that is next to it in the direction of `to`.
/// Their type has infinities.
mlir::Value buildNextAfter(mlir::ImplicitLocOpBuilder &builder,
                           mlir::Value from, mlir::Value to);

/// The upper half of a product of integers of up to 32 bits.
mlir::Value buildMulhi(mlir::ImplicitLocOpBuilder &builder, mlir::Value lhs,
                       mlir::Value rhs);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_BITFUNCTIONS_H
