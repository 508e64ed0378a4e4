// A hand-made artefact for a GPU, and a device that records what it would do.
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

/// An executable on a recording that a test can look into.
struct Recorded {
  explicit Recorded(const std::string &artefact = gpuArtefact(),
                    std::shared_ptr<cuda::RecordingDriver> driver =
                        std::make_shared<cuda::RecordingDriver>());
  void run(const char *function = "step");
  /// The lines since the last call of this.
  std::string newLines();

  std::shared_ptr<cuda::RecordingDriver> driver;
  std::unique_ptr<Executable> exe;
  std::vector<float> params, batch;
  float loss = 0;
  /// What run() passes; a test may put addresses of the device here.
  std::vector<void *> args, results;
};

/// The lines of `text` that start with `word`, each ended by a newline.
std::string linesOf(const std::string &text, const std::string &word);

/// The lines of cublasLtMatmul of one step of a manifest with the kernels and
/// constants above, or the error.
std::string matmulsOf(const Json &manifest,
                      std::shared_ptr<cuda::RecordingDriver> driver =
                          std::make_shared<cuda::RecordingDriver>());

/// While it lives, that many algorithms of a product are measured at load, and
/// the fastest is kept in a file of a folder that goes with it.
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
