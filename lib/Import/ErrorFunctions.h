//===- ErrorFunctions.h - erf, erfc and erf_inv in stablehlo ----*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_ERRORFUNCTIONS_H
#define SCALIFY_LIB_IMPORT_ERRORFUNCTIONS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify::import {

/// Build functions of `x`, an f32 or f64 tensor, in its type.
mlir::Value buildErf(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildErfc(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildErfInv(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);

/// Build the functions in f64; `start` is near the result.
mlir::Value buildDoubleErf(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildDoubleErfc(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildDoubleErfInv(mlir::ImplicitLocOpBuilder &builder,
                              mlir::Value x, mlir::Value start);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_ERRORFUNCTIONS_H
