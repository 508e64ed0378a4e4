//===- StateDecay.h - How fast state forgets its old value ------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_STATEDECAY_H
#define SCALIFY_LIB_PRECISION_STATEDECAY_H

#include "mlir/IR/Value.h"

#include <optional>

namespace scalify {

/// Returns the factor of the old value `own` of state in its new value: 1 for a
/// sum over all steps, 0 if it is replaced. Of alternatives that selects,
/// branches and extrema choose, the largest factor counts, and steps that keep
/// the state do not. NaN if a factor is unknown. Nothing is returned if the new
/// value is no average: its elements are not sums of those of the old one times
/// a factor for all, as of a running maximum or of step sizes of their own.
std::optional<double> findDecay(mlir::Value own, mlir::Value written);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_STATEDECAY_H
