//===- StageCommands.cpp - Commands of a plan by stages -------------------===//

#include "StageCommands.h"

using namespace mlir;
using namespace scalify;

/// True if a command reads memory that an earlier one wrote.
static bool reads(Operation *command, Operation *earlier) {
  return llvm::any_of(
      plan::accessesOf(command), [&](const plan::Access &access) {
        return !access.isWrite &&
               llvm::any_of(
                   plan::accessesOf(earlier), [&](const plan::Access &before) {
                     return before.isWrite && before.conflictsWith(access);
                   });
      });
}

/// Returns the stage of a command without a task, such as a copy to a result:
/// the stage that computes its operands.
static int64_t findStage(const StreamCommand &command,
                         ArrayRef<StagedCommand> earlier,
                         llvm::function_ref<int64_t(int64_t)> ownerOf) {
  int64_t stage = kAllStages;
  for (Value operand : command.op->getOperands())
    if (auto argument = operand.getDefiningOp<plan::ArgumentOp>())
      stage = std::max(stage, ownerOf(argument.getIndex()));
  for (size_t need : command.needs)
    if (earlier[need].stage > stage && reads(command.op, earlier[need].op))
      stage = earlier[need].stage;
  return stage;
}

/// Marks the commands that another task, other than the same stage's update, or
/// another stage waits for, directly or through commands of their own task.
static std::vector<bool> findUrgent(ArrayRef<StagedCommand> commands) {
  std::vector<bool> isUrgent(commands.size(), false);
  for (size_t number = commands.size(); number-- > 0;) {
    const StagedCommand &command = commands[number];
    bool isUpdate = command.task && command.task->kind == StageTask::Update;
    for (size_t need : command.needs) {
      if (commands[need].task == command.task)
        isUrgent[need] = isUrgent[need] || isUrgent[number];
      else if (!isUpdate || commands[need].stage != command.stage)
        isUrgent[need] = true;
    }
  }
  return isUrgent;
}

/// Defers sums of gradients that only the update reads until their task has
/// sent its messages, so that the previous stage, which waits for its gradient,
/// does not wait for these sums. The first chunk's backward sends nothing, and
/// its sums overlap its compute.
static void deferSums(MutableArrayRef<StagedCommand> commands,
                      const StageSchedule &schedule) {
  std::vector<bool> isUrgent = findUrgent(commands);
  for (size_t number = 0; number < commands.size(); ++number) {
    StagedCommand &command = commands[number];
    if (isUrgent[number] || !command.task ||
        command.task->kind != StageTask::Backward || command.task->place == 0)
      continue;
    command.isLate =
        isa<plan::CollectiveOp>(command.op) ||
        llvm::any_of(command.needs, [&](size_t need) {
          return commands[need].isLate && commands[need].task == command.task;
        });
    if (command.isLate)
      command.moment.first = schedule.endOf(*command.task);
  }
}

SmallVector<StagedCommand>
scalify::readStagedCommands(ArrayRef<StreamCommand> commands,
                            const StageSchedule &schedule,
                            llvm::function_ref<int64_t(int64_t)> ownerOf) {
  SmallVector<StagedCommand> staged;
  for (const StreamCommand &from : commands) {
    StagedCommand command;
    command.op = from.op;
    command.needs = from.needs;
    if (auto task = from.op->getAttrOfType<StringAttr>(plan::kTaskAttr))
      command.task = StageTask::parse(task.getValue());
    if (!command.task)
      if (int64_t stage = findStage(from, staged, ownerOf); stage != kAllStages)
        command.task = StageTask{StageTask::Update, stage, 0};
    if (command.task) {
      command.stage = schedule.getShape().stageOf(*command.task);
      command.moment = {schedule.startOf(*command.task),
                        static_cast<double>(staged.size())};
    }
    staged.push_back(command);
  }
  deferSums(staged, schedule);
  return staged;
}
