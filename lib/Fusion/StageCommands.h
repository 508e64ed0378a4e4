//===- StageCommands.h - Commands of a plan by stages -----------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_STAGECOMMANDS_H
#define SCALIFY_LIB_FUSION_STAGECOMMANDS_H

#include "StageSchedule.h"
#include "StreamCommands.h"

namespace scalify {

/// What everyone has: a constant, a batch, what is computed from these.
inline constexpr int64_t kEveryone = -1;

/// A place in the order of all stages: a time, then the command's number in the
/// plan; what a task made goes before what starts when it ends.
using Moment = std::pair<double, double>;

struct StagedCommand {
  mlir::Operation *op = nullptr;
  llvm::ArrayRef<size_t> needs;
  std::optional<StageTask> task;
  int64_t stage = kEveryone;
  Moment moment;
  bool isLate = false; // at the end of its task, behind what that sends
};

/// Who does each of `commands`, which must outlive what is returned, and when.
/// `ownerOf` says which stage has an argument.
llvm::SmallVector<StagedCommand>
readStagedCommands(llvm::ArrayRef<StreamCommand> commands,
                   const StageSchedule &schedule,
                   llvm::function_ref<int64_t(int64_t)> ownerOf);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_STAGECOMMANDS_H
