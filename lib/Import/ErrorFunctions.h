//===- ErrorFunctions.h - erf and its kin in stablehlo ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_ERRORFUNCTIONS_H
#define SCALIFY_LIB_IMPORT_ERRORFUNCTIONS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify::import {

/// Each builds its function of `x`, an f32 or f64 tensor, in its type.
mlir::Value buildErf(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildErfc(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildErfInv(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);

/// The same in f64; `start` is near the result.
mlir::Value buildDoubleErf(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildDoubleErfc(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildDoubleErfInv(mlir::ImplicitLocOpBuilder &builder,
                              mlir::Value x, mlir::Value start);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_ERRORFUNCTIONS_H
