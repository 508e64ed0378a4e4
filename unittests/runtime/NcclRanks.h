// Ranks whose GPUs are recordings, as threads of this process.
#ifndef SCALIFY_UNITTESTS_RUNTIME_NCCLRANKS_H
#define SCALIFY_UNITTESTS_RUNTIME_NCCLRANKS_H

#include "CommRanks.h"
#include "TestArtefact.h"
#include "device/cuda/RecordingDriver.h"
#include "loader/Executable.h"

namespace scalify::rt::test {

/// A collective of arg0 f32[4] with `results` elements in result0, and the
/// rank's number in result1, on `ranks` GPUs.
Json gpuCollective(const Json &collective, int64_t results, int64_t ranks);

/// A collective's entry in a manifest.
Json collectiveOf(const char *kind, const char *join, Json groups);

/// An executable on a recording; `comm` is null for a single rank.
struct GpuRank {
  GpuRank(const Json &manifest, Communicator *comm,
          std::shared_ptr<cuda::Fabric> fabric = nullptr,
          const std::shared_ptr<cuda::RecordingDriver> &driver = nullptr);
  /// Runs with input `x`; the outputs are in y and number.
  void run(std::vector<float> x = {1, 2, 3, 4});
  /// Returns the lines since the last call, except those of memory and events.
  std::string newLines();

  std::shared_ptr<cuda::RecordingDriver> driver;
  std::unique_ptr<Executable> exe;
  std::vector<float> y;
  uint32_t number = 99;
};

/// Returns the text of the body's exception, or "".
std::string errorOf(const std::function<void()> &body);

} // namespace scalify::rt::test

#endif // SCALIFY_UNITTESTS_RUNTIME_NCCLRANKS_H
