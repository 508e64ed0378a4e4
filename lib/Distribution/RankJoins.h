//===- RankJoins.h - Collectives in one process -----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_RANKJOINS_H
#define SCALIFY_LIB_DISTRIBUTION_RANKJOINS_H

#include "mlir/IR/Builders.h"

namespace scalify {

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
