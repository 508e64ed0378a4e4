//===- GatherMaxima.h - Maxima of what ranks gather -------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_GATHERMAXIMA_H
#define SCALIFY_LIB_DISTRIBUTION_GATHERMAXIMA_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// Takes largest magnitudes of gathered values as maxima over ranks of those of
/// their shares, so that a scale which follows from one is known before the
/// gather. Those of what the step starts from are one message.
void takeMaximaOfShares(mlir::func::FuncOp main);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_GATHERMAXIMA_H
