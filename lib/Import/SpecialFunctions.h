//===- SpecialFunctions.h - Arcs, hyperbolics, gamma, Bessel ----*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_SPECIALFUNCTIONS_H
#define SCALIFY_LIB_IMPORT_SPECIALFUNCTIONS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify::import {

/// Build functions of f32 or f64 tensors, in their type; Bessel's in f32 only.
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
mlir::Value buildBesselI1e(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value buildDoubleBesselI1e(mlir::ImplicitLocOpBuilder &builder,
                                 mlir::Value x);
/// Hurwitz' zeta function: the sum of (q + k)^-s over all k from 0.
mlir::Value buildZeta(mlir::ImplicitLocOpBuilder &builder, mlir::Value s,
                      mlir::Value q);
mlir::Value buildPolygamma(mlir::ImplicitLocOpBuilder &builder, mlir::Value n,
                           mlir::Value x);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_SPECIALFUNCTIONS_H
