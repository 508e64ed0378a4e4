//===- GatherMaxima.h - Amaxes of all-gathered values -----------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_GATHERMAXIMA_H
#define SCALIFY_LIB_DISTRIBUTION_GATHERMAXIMA_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// Replaces the amax of an all-gathered value by the maximum over ranks of the
/// shares' amaxes, so that a scale computed from it is known before the gather.
/// Amaxes of operands that are available at the start share one message.
void computeMaximaOfShares(mlir::func::FuncOp main);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_GATHERMAXIMA_H
