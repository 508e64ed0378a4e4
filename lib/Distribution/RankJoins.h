//===- RankJoins.h - Collectives in one process -----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_RANKJOINS_H
#define SCALIFY_LIB_DISTRIBUTION_RANKJOINS_H

#include "mlir/IR/Builders.h"

namespace scalify {

/// On a slice that is dense memory on a rank: Fusion stores it, and no product
/// reads it where it lies in the whole, in other steps and another order.
inline constexpr llvm::StringLiteral kDenseAttr = "plan.materialise";

/// One value of a device's program as every rank has it, in their order. Ranks
/// that are known to have the same one name the same value.
using RankValues = llvm::SmallVector<mlir::Value>;

/// Builds what each rank gets from a collective, one entry for each result,
/// from what each rank gives for each operand: sums from the first member of a
/// group to the last, one at a time. Fails with an error at the collective.
mlir::FailureOr<llvm::SmallVector<RankValues>>
joinRanks(mlir::OpBuilder &builder, mlir::Operation *collective,
          llvm::ArrayRef<RankValues> operands);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_RANKJOINS_H
