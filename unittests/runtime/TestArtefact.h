// Assembles artefacts for tests, independently of the compiler's writer.
#ifndef SCALIFY_UNITTESTS_RUNTIME_TESTARTEFACT_H
#define SCALIFY_UNITTESTS_RUNTIME_TESTARTEFACT_H

#include "scalify/runtime.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace scalify::rt::test {

using Json = nlohmann::json;

inline bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// The bytes of a file.
std::string readFile(const std::string &path);

/// Header, manifest, and the sections, page aligned. Fills in "sections"; the
/// cubin's is there if it is not empty.
std::string pack(Json manifest, const std::string &kernels,
                 const std::string &constants, const std::string &cubin = "");

/// The same with a manifest that is not JSON, or is edited text.
std::string packText(const std::string &manifest, const std::string &tail);

/// Sets the length and checksum fields anew after bytes were changed.
void reseal(std::string &artefact);

/// {"kind": kind, "index" or "offset": at, "dtype": ..., "shape": ...}.
Json buffer(const char *kind, int64_t at, std::vector<int64_t> shape,
            const char *dtype = "f32");

/// A training step in miniature with n parameters:
///   params' = params + batch (donated), clipped = clip(params'),
///   loss = total(clipped).
Json tinyManifest(int64_t n);

/// A step of four ranks that computes beside a collective, n elements each:
///   own = x + x, sum = all_reduce(own) on stream 1, beside = x + own,
///   whole = sum + x.
Json overlapManifest(int64_t n);

/// tinyManifest with the test kernels.
std::string tinyArtefact(int64_t n);

/// The built test kernels; the second file adds 100 in `add`.
std::string kernels();
std::string otherKernels();

struct Free {
  void operator()(scalify_rt_executable *exe) const { scalify_rt_free(exe); }
};
using Handle = std::unique_ptr<scalify_rt_executable, Free>;

/// Loads from memory; null on failure, with the error in
/// scalify_rt_last_error().
Handle load(const std::string &artefact, int threads = 1,
            scalify_rt_device device = SCALIFY_RT_DEVICE_CPU);

} // namespace scalify::rt::test

#endif // SCALIFY_UNITTESTS_RUNTIME_TESTARTEFACT_H
