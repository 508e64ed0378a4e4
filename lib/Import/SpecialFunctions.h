//===- SpecialFunctions.h - Arcs, hyperbolics and gamma ---------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_SPECIALFUNCTIONS_H
#define SCALIFY_LIB_IMPORT_SPECIALFUNCTIONS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify::import {

/// Each builds its function of `x`, an f32 tensor, in f32.
mlir::Value buildAcos(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildAcosh(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildAsin(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildAsinh(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildAtan(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildAtanh(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildCosh(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildSinh(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildLgamma(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildDigamma(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_SPECIALFUNCTIONS_H
