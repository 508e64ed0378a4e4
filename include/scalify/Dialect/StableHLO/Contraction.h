//===- Contraction.h - Ops that multiply and sum ----------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_CONTRACTION_H
#define SCALIFY_DIALECT_STABLEHLO_CONTRACTION_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify::stablehlo {

/// True if the op multiplies its first two operands and sums: a dot or a
/// convolution. These ops can compute on narrow formats, so scale hints go on
/// those operands.
inline bool isContraction(mlir::Operation *op) {
  // By name: CHLO builds on this dialect.
  return mlir::isa<DotGeneralOp, DotOp, ConvolutionOp>(op) ||
         op->getName().getStringRef() == "chlo.ragged_dot";
}

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_CONTRACTION_H
