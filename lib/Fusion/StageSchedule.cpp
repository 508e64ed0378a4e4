//===- StageSchedule.cpp - Schedule of a pipeline's stages ----------------===//

#include "StageSchedule.h"

#include <algorithm>
#include <cassert>

using namespace mlir;
using namespace scalify;

//===----------------------------------------------------------------------===//
// Tasks
//===----------------------------------------------------------------------===//

std::string StageTask::toString() const {
  std::string text = (kind == Forward    ? "F"
                      : kind == Backward ? "B"
                                         : "U") +
                     std::to_string(place);
  return kind == Update ? text : text + "." + std::to_string(microbatch);
}

std::optional<StageTask> StageTask::parse(StringRef text) {
  StageTask task;
  if (text.consume_front("F"))
    task.kind = Forward;
  else if (text.consume_front("B"))
    task.kind = Backward;
  else if (!text.consume_front("U"))
    return std::nullopt;
  if (text.consumeInteger(10, task.place) || task.place < 0)
    return std::nullopt;
  bool hasMore = task.kind != Update;
  if (hasMore &&
      (!text.consume_front(".") || text.consumeInteger(10, task.microbatch) ||
       task.microbatch < 0))
    return std::nullopt;
  if (!text.empty())
    return std::nullopt;
  return task;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

std::string StageSchedule::getReasonAgainst(PipelineShape shape) {
  if (shape.virtualChunks > 1 && shape.microbatches % shape.stages)
    return std::to_string(shape.microbatches) +
           " micro-batches, which do not go through the chunks of " +
           std::to_string(shape.stages) +
           " stages in whole groups; take a multiple of the stages, or one "
           "chunk a stage";
  return "";
}

StageSchedule::StageSchedule(PipelineShape shape) : shape(shape) {
  assert(getReasonAgainst(shape).empty());
  for (int64_t stage = 0; stage < shape.stages; ++stage)
    listTasks(stage);
  setTimes();
}

void StageSchedule::listTasks(int64_t stage) {
  int64_t p = shape.stages, v = shape.virtualChunks;
  int64_t all = shape.microbatches * v;
  // The n-th forward, or backward, of the stage.
  auto taskAt = [&](StageTask::Kind kind, int64_t n) {
    if (v == 1)
      return StageTask{kind, stage, n};
    int64_t own = n % (p * v) / p;
    if (kind == StageTask::Backward)
      own = v - 1 - own;
    return StageTask{kind, own * p + stage, n / (p * v) * p + n % p};
  };
  int64_t ahead = v == 1 ? p - stage - 1 : (p - stage - 1) * 2 + (v - 1) * p;
  ahead = std::min(ahead, all);
  SmallVector<StageTask> &list = lists.emplace_back();
  for (int64_t n = 0; n < all + ahead; ++n) {
    if (n < all)
      list.push_back(taskAt(StageTask::Forward, n));
    if (n >= ahead)
      list.push_back(taskAt(StageTask::Backward, n - ahead));
  }
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

/// Returns the time at which a task's inputs are ready; none while that is not
/// known.
std::optional<double> StageSchedule::readyAt(const StageTask &task) const {
  StageTask need = task;
  bool isLast = task.place == shape.chunks() - 1;
  if (task.kind == StageTask::Forward) {
    if (task.place == 0)
      return 0;
    --need.place;
  } else if (isLast) {
    need.kind = StageTask::Forward;
  } else {
    ++need.place;
  }
  auto found = starts.find(need);
  if (found == starts.end())
    return std::nullopt;
  return found->second + durationOf(need);
}

void StageSchedule::setTimes() {
  SmallVector<size_t> next(shape.stages, 0);
  SmallVector<double> now(shape.stages, 0);
  bool moved = true;
  while (moved) {
    moved = false;
    for (int64_t stage = 0; stage < shape.stages; ++stage)
      while (next[stage] < lists[stage].size()) {
        const StageTask &task = lists[stage][next[stage]];
        std::optional<double> ready = readyAt(task);
        if (!ready)
          break;
        double start = std::max(now[stage], *ready);
        starts[task] = start;
        now[stage] = start + durationOf(task);
        end = std::max(end, now[stage]);
        ++next[stage];
        moved = true;
      }
  }
  for (int64_t stage = 0; stage < shape.stages; ++stage)
    assert(next[stage] == lists[stage].size() && "the schedule waits for ever");
}

double StageSchedule::startOf(const StageTask &task) const {
  if (task.kind == StageTask::Update)
    return end;
  return starts.at(task);
}
