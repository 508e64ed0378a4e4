//===- StageCommands.h - Commands of a plan by stages -----------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_STAGECOMMANDS_H
#define SCALIFY_LIB_FUSION_STAGECOMMANDS_H

#include "StageSchedule.h"
#include "StreamCommands.h"

namespace scalify {

/// The stage of values that all stages have: constants, the batch, and values
/// computed from these.
inline constexpr int64_t kAllStages = -1;

/// A place in the order of all stages: a time, then the command's number in the
/// plan. The results of a task go before tasks that start when it ends.
using Moment = std::pair<double, double>;

struct StagedCommand {
  mlir::Operation *op = nullptr;
  llvm::ArrayRef<size_t> needs;
  std::optional<StageTask> task;
  int64_t stage = kAllStages;
  Moment moment;
  bool isLate = false; // at the end of its task, after its messages
};

/// Assigns each of `commands`, which must outlive the result, a stage and a
/// moment. `ownerOf` returns the stage that owns an argument.
llvm::SmallVector<StagedCommand>
readStagedCommands(llvm::ArrayRef<StreamCommand> commands,
                   const StageSchedule &schedule,
                   llvm::function_ref<int64_t(int64_t)> ownerOf);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_STAGECOMMANDS_H
