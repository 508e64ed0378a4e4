//===- RankJoins.h - Collectives in one process -----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_RANKJOINS_H
#define SCALIFY_LIB_DISTRIBUTION_RANKJOINS_H

#include "mlir/IR/Builders.h"

namespace scalify {

/// On a slice that is dense memory on a rank: Fusion materialises it, so that
/// no dot reads it in place, with other strides and in another order.
inline constexpr llvm::StringLiteral kDenseAttr = "plan.materialise";

/// The ranks' values of one value of a device's program, in rank order. Ranks
/// that are known to agree share one value.
using RankValues = llvm::SmallVector<mlir::Value>;

/// Builds the ranks' results of a collective from their operands; one entry per
/// result and per operand. Sums go from the first member of a group to the
/// last. Fails with an error at the collective.
mlir::FailureOr<llvm::SmallVector<RankValues>>
joinRanks(mlir::OpBuilder &builder, mlir::Operation *collective,
          llvm::ArrayRef<RankValues> operands);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_RANKJOINS_H
