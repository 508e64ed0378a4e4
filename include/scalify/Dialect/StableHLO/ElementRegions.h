//===- ElementRegions.h - Scalar regions applied to tensors -----*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_ELEMENTREGIONS_H
#define SCALIFY_DIALECT_STABLEHLO_ELEMENTREGIONS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Builders.h"

namespace scalify::stablehlo {

/// Applies the body of a reduction, comparator or similar region, which is
/// written for scalars, to tensors of one shape, element by element, at the
/// builder's insertion point. Returns the operands of its terminator.
/// `elementOf` may change the element type of results. Fails with an error at
/// `owner` if an op cannot be applied elementwise.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> applyToElements(
    mlir::OpBuilder &builder, mlir::Operation *owner, mlir::Block &body,
    mlir::ValueRange arguments,
    llvm::function_ref<mlir::Type(mlir::Type)> elementOf =
        [](mlir::Type element) { return element; });

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_ELEMENTREGIONS_H
