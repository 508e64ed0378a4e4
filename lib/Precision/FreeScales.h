//===- FreeScales.h - Casts whose scales may be replaced --------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_FREESCALES_H
#define SCALIFY_LIB_PRECISION_FREESCALES_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringSet.h"

namespace scalify {

/// Returns the readers of the cast's data, looking through moves and through
/// loops that stack it.
llvm::SmallVector<mlir::Operation *> getCastReaders(QuantizeOp cast);

/// True if the scale is a constant that only this step uses. The next step
/// reads data that main returns, at the scale of its argument.
bool hasFreeScale(QuantizeOp cast);

/// Returns the names of the arguments whose sizes change with training and
/// data: all float ones without `scalify.moments`, which gains of norms have.
llvm::StringSet<> findVaryingArguments(mlir::FunctionOpInterface main);

/// True if a cast, or the hint for one, is proved to fit whatever sizes
/// `moving` arguments take. A proof by the measured size of a weight or of the
/// first batch does not hold for later steps.
bool isProvedToFit(mlir::Operation *cast, const llvm::StringSet<> &moving);

/// Sets the scale of the cast and of its readers. `scale` must dominate them.
void setCastScale(QuantizeOp cast, mlir::Value scale);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_FREESCALES_H
