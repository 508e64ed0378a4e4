//===- StageSchedule.h - Schedule of a pipeline's stages --------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_STAGESCHEDULE_H
#define SCALIFY_LIB_FUSION_STAGESCHEDULE_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <optional>
#include <string>
#include <tuple>

namespace scalify {

/// The forward or the backward of one chunk of the model for one micro-batch,
/// or the work of a stage after all of them, such as its part of the optimizer.
struct StageTask {
  enum Kind : uint8_t { Forward, Backward, Update };
  Kind kind = Update;
  int64_t place = 0; // the chunk; of an update the stage
  int64_t microbatch = 0;

  /// "F2.1", "B2.1" or "U0".
  std::string toString() const;
  static std::optional<StageTask> parse(llvm::StringRef text);

  std::tuple<int, int64_t, int64_t> key() const {
    return {kind, place, microbatch};
  }
  bool operator==(const StageTask &other) const { return key() == other.key(); }
  bool operator<(const StageTask &other) const { return key() < other.key(); }
};

struct PipelineShape {
  int64_t stages = 1;
  int64_t virtualChunks = 1; // of each stage
  int64_t microbatches = 1;

  int64_t chunks() const { return stages * virtualChunks; }
  /// Chunk c is on stage c mod p: the model goes round all stages v times.
  int64_t stageOf(const StageTask &task) const {
    return task.kind == StageTask::Update ? task.place : task.place % stages;
  }
};

/// One forward, one backward (1F1B): a stage runs as many forwards ahead as
/// there are stages after it, then alternates forwards and backwards, and then
/// runs the remaining backwards. With more than one chunk per stage
/// (interleaved), it goes through the chunks in groups of as many micro-batches
/// as there are stages. In the time model a forward of a chunk takes 1, a
/// backward 2, and a message 0.
class StageSchedule {
public:
  explicit StageSchedule(PipelineShape shape);

  /// Returns why there is no such schedule, or "".
  static std::string getReasonAgainst(PipelineShape shape);

  const PipelineShape &getShape() const { return shape; }
  double startOf(const StageTask &task) const;
  double endOf(const StageTask &task) const {
    return startOf(task) + durationOf(task);
  }

private:
  static double durationOf(const StageTask &task) {
    return task.kind == StageTask::Forward    ? 1
           : task.kind == StageTask::Backward ? 2
                                              : 0;
  }
  void listTasks(int64_t stage);
  void setTimes();
  std::optional<double> readyAt(const StageTask &task) const;

  PipelineShape shape;
  llvm::SmallVector<llvm::SmallVector<StageTask>> lists; // by stage
  std::map<StageTask, double> starts;
  double end = 0;
};

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_STAGESCHEDULE_H
