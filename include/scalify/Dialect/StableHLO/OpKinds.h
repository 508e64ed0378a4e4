//===- OpKinds.h - Families of ops ------------------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_OPKINDS_H
#define SCALIFY_DIALECT_STABLEHLO_OPKINDS_H

#include "scalify/Dialect/StableHLO/Values.h"

#include "mlir/IR/TypeUtilities.h"

namespace scalify {

/// True for ops that compute each element of the result from the elements at
/// the same index of the operands (some of which may be scalars).
inline bool isElementwiseOp(mlir::Operation *op) {
  return op->hasTrait<mlir::OpTrait::Elementwise>() ||
         llvm::isa<stablehlo::SelectOp, stablehlo::ClampOp,
                   stablehlo::BitcastConvertOp>(op);
}

/// True if the type, or its element type, is E4M3 or E5M2.
inline bool hasFP8Elements(mlir::Type type) {
  return llvm::isa<mlir::Float8E4M3FNType, mlir::Float8E5M2Type>(
      mlir::getElementTypeOrSelf(type));
}

} // namespace scalify

#endif // SCALIFY_DIALECT_STABLEHLO_OPKINDS_H
