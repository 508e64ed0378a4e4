// A hand-written artefact for a GPU, and a device that records its calls.
#ifndef SCALIFY_UNITTESTS_RUNTIME_GPUARTEFACT_H
#define SCALIFY_UNITTESTS_RUNTIME_GPUARTEFACT_H

#include "TestArtefact.h"
#include "device/cuda/RecordingDriver.h"
#include "loader/Executable.h"

namespace scalify::rt::test {

/// A step of target sm_90a:
///   cast(batch) and cast(params) to FP8 with counters, a product of the two
///   with scales from constants, and update(product, params) in place:
///   params f32[32,64] is donated, batch is f32[48,64], loss f32.
Json gpuManifest();

/// PTX with entries `cast` and `update`, of three and four parameters.
std::string gpuKernels();

/// Two f32 scales, 64 bytes apart.
std::string gpuConstants();

std::string gpuArtefact();

/// An executable on a recording that a test can inspect.
struct Recorded {
  explicit Recorded(const std::string &artefact = gpuArtefact(),
                    std::shared_ptr<cuda::RecordingDriver> driver =
                        std::make_shared<cuda::RecordingDriver>());
  void run(const char *function = "step");
  /// Returns the lines since the last call.
  std::string newLines();

  std::shared_ptr<cuda::RecordingDriver> driver;
  std::unique_ptr<Executable> exe;
  std::vector<float> params, batch;
  float loss = 0;
  /// The arguments of run(); a test may put addresses of the device here.
  std::vector<void *> args, results;
};

/// Returns the lines of `text` that start with `word`, each with its newline.
std::string linesOf(const std::string &text, const std::string &word);

/// Returns the lines of cublasLtMatmul of one step of a manifest with the
/// kernels and constants above, or the error.
std::string matmulsOf(const Json &manifest,
                      std::shared_ptr<cuda::RecordingDriver> driver =
                          std::make_shared<cuda::RecordingDriver>());

/// While it lives, `count` algorithms of a product are measured at load, and
/// the fastest is kept in a file of a temporary folder.
class Search {
public:
  explicit Search(const char *count);
  ~Search();
  Search(const Search &) = delete;
  Search &operator=(const Search &) = delete;
  std::string file() const { return folder + "/scalify/gemm.json"; }

private:
  std::string folder;
};

} // namespace scalify::rt::test

#endif // SCALIFY_UNITTESTS_RUNTIME_GPUARTEFACT_H
