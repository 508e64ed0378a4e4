//===- PlanLapack.h - Calls of LAPACK in a plan -----------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_PLAN_PLANLAPACK_H
#define SCALIFY_DIALECT_PLAN_PLANLAPACK_H

#include "scalify/Dialect/Plan/Plan.h"

namespace scalify::plan {

/// Returns the type of the work space of a call: the elements for one matrix,
/// times the tasks that share the batch.
mlir::RankedTensorType getWorkType(FactorizeOp op);

} // namespace scalify::plan

#endif // SCALIFY_DIALECT_PLAN_PLANLAPACK_H
