//===- Detail.h - Helpers of generated op classes ---------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_DETAIL_H
#define SCALIFY_DIALECT_STABLEHLO_DETAIL_H

#include "mlir/IR/Location.h"
#include "mlir/IR/TypeRange.h"
#include "mlir/IR/ValueRange.h"

namespace scalify::stablehlo::detail {

/// Infers the result type of an elementwise op: the operands' common type, with
/// a dimension static if it is static in any operand.
llvm::LogicalResult
inferElementwiseType(std::optional<mlir::Location> location,
                     llvm::StringRef opName, mlir::ValueRange operands,
                     llvm::SmallVectorImpl<mlir::Type> &inferred);

/// True if the types agree pairwise up to dynamic dimensions.
bool areCompatibleTypes(mlir::TypeRange lhs, mlir::TypeRange rhs);

} // namespace scalify::stablehlo::detail

#endif // SCALIFY_DIALECT_STABLEHLO_DETAIL_H
