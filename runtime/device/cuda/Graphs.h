// One function's steps as CUDA graphs, one for each set of addresses.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_GRAPHS_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_GRAPHS_H

#include "device/Device.h"
#include "device/cuda/Session.h"

namespace scalify::rt::cuda {

class Graphs {
public:
  /// False until the function has run once without a capture: libraries load
  /// their kernels at the first launch, which a capture may not bear.
  bool isWarm() const { return warm; }
  void setWarm() { warm = true; }

  /// True if the call's addresses are those of a graph, which is now current.
  bool find(const StepCall &call);
  /// What the stream is given from here on is captured and not run.
  void begin(const Session &session, StreamHandle stream);
  /// Ends the capture and makes its graph the current one. Where there are
  /// as many as may be, it takes the place of that which ran longest ago.
  void finish(const Session &session, StreamHandle stream,
              const StepCall &call);
  void launch(const Session &session, StreamHandle stream);
  /// Ends a capture that an error has spoilt.
  void abandon(const Session &session, StreamHandle stream) noexcept;

private:
  struct Entry {
    std::vector<void *> args, results;
    Owned<GraphExecHandle> exec;
    uint64_t lastUse = 0;
  };
  Entry &entryFor(const Session &session, GraphHandle graph);

  // A loop that swaps two or three batches in and out replays; more sets of
  // addresses mean a caller who allocates anew each step.
  static constexpr size_t mostGraphs = 4;

  std::vector<Entry> entries;
  size_t current = 0;
  uint64_t uses = 0;
  bool isCapturing = false;
  bool warm = false;
};

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_GRAPHS_H
