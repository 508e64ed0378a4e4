//===- FreeScales.h - Scales that only a step knows -------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_FREESCALES_H
#define SCALIFY_LIB_PRECISION_FREESCALES_H

#include "scalify/Dialect/Scalify/Scalify.h"

namespace scalify {

/// The readers of the cast's data, through moves and through the loops that
/// stack it.
llvm::SmallVector<mlir::Operation *> getCastReaders(QuantizeOp cast);

/// Whether the scale is a constant that only this step knows. Data that main
/// returns is read by the next step, at the scale of its argument.
bool hasFreeScale(QuantizeOp cast);

/// Gives the cast and its readers another scale, which must be visible to all.
void setCastScale(QuantizeOp cast, mlir::Value scale);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_FREESCALES_H
