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

/// Checks that a result has the operand's rank and element type.
llvm::LogicalResult checkSameRank(mlir::Operation *op,
                                  mlir::RankedTensorType operand,
                                  mlir::RankedTensorType result);

/// Checks that `dims` of the result repeat the operand.
llvm::LogicalResult checkBroadcast(mlir::Operation *op,
                                   mlir::RankedTensorType operand,
                                   llvm::ArrayRef<int64_t> dims,
                                   mlir::RankedTensorType result);

/// Checks that a result has the operand's element type and as many elements.
llvm::LogicalResult checkReshape(mlir::Operation *op,
                                 mlir::RankedTensorType operand,
                                 mlir::RankedTensorType result);

/// Checks that a product has no precisions, or one per operand.
llvm::LogicalResult checkPrecisions(mlir::Operation *op,
                                    std::optional<mlir::ArrayAttr> precisions);

/// Checks that pairs of devices name no source and no target twice.
llvm::LogicalResult checkSourceTargetPairs(mlir::Operation *op,
                                           mlir::DenseIntElementsAttr pairs);

/// Checks a region's one block: its argument types and its returned types.
llvm::LogicalResult checkRegion(mlir::Operation *op, mlir::Region &region,
                                llvm::StringRef what, mlir::TypeRange arguments,
                                mlir::TypeRange results);

/// Checks that a reduction in elements of `accumulator` may take a value: its
/// elements are of the same kind and have as many bits or fewer.
llvm::LogicalResult checkPromotable(mlir::Operation *op, mlir::Type value,
                                    mlir::Type accumulator);

/// Checks that a region combines two groups of scalars into one.
llvm::LogicalResult checkReducer(mlir::Operation *op, mlir::Region &region,
                                 llvm::ArrayRef<mlir::Type> scalars);

} // namespace scalify::stablehlo

#endif // SCALIFY_LIB_DIALECT_STABLEHLO_VERIFICATION_H
