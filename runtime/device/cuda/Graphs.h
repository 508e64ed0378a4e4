// The steps of one function as CUDA graphs, one for each set of addresses.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_GRAPHS_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_GRAPHS_H

#include "device/Device.h"
#include "device/cuda/Session.h"

namespace scalify::rt::cuda {

class Graphs {
public:
  /// False until the function has run once without a capture: libraries load
  /// their kernels at the first launch, which a capture may not allow.
  bool isWarm() const { return warm; }
  void setWarm() { warm = true; }

  /// True if a graph has the call's addresses; makes it the current one.
  bool find(const StepCall &call);
  /// From here on the stream's work is captured instead of run.
  void begin(const Session &session, StreamHandle stream);
  /// Ends the capture and makes its graph the current one. At the limit of
  /// graphs it replaces the least recently used one.
  void finish(const Session &session, StreamHandle stream,
              const StepCall &call);
  void launch(const Session &session, StreamHandle stream);
  /// Ends a capture after an error.
  void abandon(const Session &session, StreamHandle stream) noexcept;

private:
  struct Entry {
    std::vector<void *> args, results;
    Owned<GraphExecHandle> exec;
    uint64_t lastUse = 0;
  };
  Entry &entryFor(const Session &session, GraphHandle graph);

  // A loop that alternates two or three batches replays graphs. More sets of
  // addresses mean a caller that allocates anew each step.
  static constexpr size_t maxGraphs = 4;

  std::vector<Entry> entries;
  size_t current = 0;
  uint64_t uses = 0;
  bool isCapturing = false;
  bool warm = false;
};

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_GRAPHS_H
