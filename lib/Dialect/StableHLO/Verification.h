//===- Verification.h - Checks that several families share ------*- C++ -*-===//

#ifndef SCALIFY_LIB_DIALECT_STABLEHLO_VERIFICATION_H
#define SCALIFY_LIB_DIALECT_STABLEHLO_VERIFICATION_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/TypeUtilities.h"

namespace scalify::stablehlo {

/// Checks that each of `dims` lies in [0, rank) and, on request, that none
/// comes twice.
llvm::LogicalResult checkDims(std::optional<mlir::Location> location,
                              llvm::StringRef opName, llvm::StringRef what,
                              llvm::ArrayRef<int64_t> dims, int64_t rank,
                              bool unique = true);

/// Checks that a list has one entry per dimension.
llvm::LogicalResult checkLength(std::optional<mlir::Location> location,
                                llvm::StringRef opName, llvm::StringRef what,
                                size_t length, int64_t rank);

/// Checks that two sizes agree where both are static.
inline bool sizesAgree(int64_t a, int64_t b) {
  return mlir::ShapedType::isDynamic(a) || mlir::ShapedType::isDynamic(b) ||
         a == b;
}

/// Checks the type of a result against the shape that it must have.
llvm::LogicalResult checkResultShape(mlir::Operation *op,
                                     llvm::ArrayRef<int64_t> shape,
                                     mlir::RankedTensorType result);

/// Checks a region's one block: its argument types and what it returns.
llvm::LogicalResult checkRegion(mlir::Operation *op, mlir::Region &region,
                                llvm::StringRef what, mlir::TypeRange arguments,
                                mlir::TypeRange results);

/// Checks that a region combines two groups of scalars into one.
llvm::LogicalResult checkReducer(mlir::Operation *op, mlir::Region &region,
                                 llvm::ArrayRef<mlir::Type> scalars);

} // namespace scalify::stablehlo

#endif // SCALIFY_LIB_DIALECT_STABLEHLO_VERIFICATION_H
