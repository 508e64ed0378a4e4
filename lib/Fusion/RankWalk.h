//===- RankWalk.h - Proof that ranks do not deadlock ------------*- C++ -*-===//
//
// Simulates the exchanges of ranks without buffering: the first rank to arrive
// at an exchange waits there. So which ranks meet, and whether all do, does not
// depend on their speed, and one simulation is a proof.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_FUSION_RANKWALK_H
#define SCALIFY_LIB_FUSION_RANKWALK_H

#include "scalify/Dialect/Plan/Plan.h"

namespace scalify {

/// Returns the messages and collectives of a program in the order of issue.
llvm::SmallVector<mlir::Operation *> listExchanges(plan::ProgramOp program);

/// The most ranks of a job, whatever groups a text names.
inline constexpr int64_t kMaxRanks = 1 << 20;

/// Simulates the exchanges of several programs, each run by `ranks` ranks. On a
/// deadlock, emits an error that names an exchange that never completes, and
/// where the other ranks stand.
mlir::LogicalResult
simulateExchanges(llvm::ArrayRef<llvm::SmallVector<mlir::Operation *>> programs,
                  int64_t ranks);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_RANKWALK_H
