//===- OpKinds.h - Families of ops ------------------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_OPKINDS_H
#define SCALIFY_DIALECT_STABLEHLO_OPKINDS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// True for ops that compute each element of the result from the elements at
/// the same place of the operands (some of which may be scalars).
inline bool isElementwiseOp(mlir::Operation *op) {
  return op->hasTrait<mlir::OpTrait::Elementwise>() ||
         llvm::isa<stablehlo::SelectOp, stablehlo::ClampOp,
                   stablehlo::BitcastConvertOp>(op);
}

} // namespace scalify

#endif // SCALIFY_DIALECT_STABLEHLO_OPKINDS_H
