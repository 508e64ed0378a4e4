//===- ElementRegions.h - Regions on scalars, for all elements --*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_ELEMENTREGIONS_H
#define SCALIFY_DIALECT_STABLEHLO_ELEMENTREGIONS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Builders.h"

namespace scalify::stablehlo {

/// Applies the body of a reduction, comparator or the like, which is written
/// for scalars, to tensors of one shape, element by element, at the builder's
/// place. Returns what its terminator returns. `elementOf` may give results
/// another element type. An error at `owner` names an op that has no meaning
/// for all elements at once.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> applyToElements(
    mlir::OpBuilder &builder, mlir::Operation *owner, mlir::Block &body,
    mlir::ValueRange arguments,
    llvm::function_ref<mlir::Type(mlir::Type)> elementOf =
        [](mlir::Type element) { return element; });

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_ELEMENTREGIONS_H
