//===- RankWalk.h - Whether ranks meet in all they exchange -----*- C++ -*-===//
//
// What ranks exchange is walked through as ranks would meet that keep nothing
// under way. Who comes to an exchange first waits there, so who meets whom, and
// whether all do, does not depend on who is fast: one walk is a proof.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_FUSION_RANKWALK_H
#define SCALIFY_LIB_FUSION_RANKWALK_H

#include "scalify/Dialect/Plan/Plan.h"

namespace scalify {

/// The messages and collectives of a program, in the order of issue.
llvm::SmallVector<mlir::Operation *> listExchanges(plan::ProgramOp program);

/// Walks through the exchanges of several programs, each of `ranks` ranks. An
/// error names an exchange that is never met, and where the other ranks stand.
mlir::LogicalResult
walkExchanges(llvm::ArrayRef<llvm::SmallVector<mlir::Operation *>> programs,
              int64_t ranks);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_RANKWALK_H
