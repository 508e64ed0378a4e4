//===- Verification.h - Checks common to several families -------*- C++ -*-===//

#ifndef SCALIFY_LIB_DIALECT_STABLEHLO_VERIFICATION_H
#define SCALIFY_LIB_DIALECT_STABLEHLO_VERIFICATION_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Diagnostics.h"

namespace scalify::stablehlo {

/// Checks that each of `dims` is in [0, rank) and, if `unique`, that none
/// occurs twice.
llvm::LogicalResult checkDims(std::optional<mlir::Location> location,
                              llvm::StringRef opName, llvm::StringRef what,
                              llvm::ArrayRef<int64_t> dims, int64_t rank,
                              bool unique = true);

/// Checks that a list has one entry per dimension.
llvm::LogicalResult checkLength(std::optional<mlir::Location> location,
                                llvm::StringRef opName, llvm::StringRef what,
                                size_t length, int64_t rank);

/// True if two sizes agree, or one of them is dynamic.
inline bool sizesAgree(int64_t a, int64_t b) {
  return mlir::ShapedType::isDynamic(a) || mlir::ShapedType::isDynamic(b) ||
         a == b;
}

/// Checks the type of a result against its expected shape.
llvm::LogicalResult checkResultShape(mlir::Operation *op,
                                     llvm::ArrayRef<int64_t> shape,
                                     mlir::RankedTensorType result);

/// Checks a region's one block: its argument types and its returned types.
llvm::LogicalResult checkRegion(mlir::Operation *op, mlir::Region &region,
                                llvm::StringRef what, mlir::TypeRange arguments,
                                mlir::TypeRange results);

/// Checks that a region combines two groups of scalars into one.
llvm::LogicalResult checkReducer(mlir::Operation *op, mlir::Region &region,
                                 llvm::ArrayRef<mlir::Type> scalars);

} // namespace scalify::stablehlo

#endif // SCALIFY_LIB_DIALECT_STABLEHLO_VERIFICATION_H
