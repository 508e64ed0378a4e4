//===- FreeScales.h - Scales that only a step knows -------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_FREESCALES_H
#define SCALIFY_LIB_PRECISION_FREESCALES_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringSet.h"

namespace scalify {

/// The readers of the cast's data, through moves and through the loops that
/// stack it.
llvm::SmallVector<mlir::Operation *> getCastReaders(QuantizeOp cast);

/// Whether the scale is a constant that only this step knows. Data that main
/// returns is read by the next step, at the scale of its argument.
bool hasFreeScale(QuantizeOp cast);

/// The arguments whose sizes training and data change: all of floats, but what
/// its mean carries, as the gains of norms.
llvm::StringSet<> findMovingArguments(mlir::FunctionOpInterface main);

/// Whether a cast, or the hint for one, is proved to fit, whatever size
/// `moving` arguments take. A proof by the measured size of a weight or of the
/// first batch does not say that training leaves the value where it is.
bool staysByProof(mlir::Operation *cast, const llvm::StringSet<> &moving);

/// Gives the cast and its readers another scale, which must be visible to all.
void setCastScale(QuantizeOp cast, mlir::Value scale);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_FREESCALES_H
