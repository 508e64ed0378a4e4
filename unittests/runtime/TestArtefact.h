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

/// Returns the bytes of a file.
std::string readFile(const std::string &path);

/// Returns header, manifest and sections, page aligned. Sets "sections", with
/// the cubin unless it is empty.
std::string pack(Json manifest, const std::string &kernels,
                 const std::string &constants, const std::string &cubin = "");

/// Same with a manifest as text, which need not be JSON.
std::string packText(const std::string &manifest, const std::string &tail);

/// Recomputes the length and checksum fields after changes.
void reseal(std::string &artefact);

/// {"kind": kind, "index" or "offset": at, "dtype": ..., "shape": ...}.
Json buffer(const char *kind, int64_t at, std::vector<int64_t> shape,
            const char *dtype = "f32");

/// An argument (key "alias_result") or a result ("alias_arg").
Json value(const char *name, std::vector<int64_t> shape, Json alias,
           const char *key, const char *dtype = "f32");

/// The interface of a step with a loop over slices of a stack, in `m`; returns
/// that of the loop's body, without commands. `sum`, `stack` [rows, width] and
/// two booleans go in, `sum` and the first boolean come out.
Json setLoopInterface(Json &m, int64_t rows, int64_t width);

/// A miniature training step with n parameters:
///   params' = params + batch (donated), clipped = clip(params'),
///   loss = total(clipped).
Json tinyManifest(int64_t n);

/// A step of four ranks that computes concurrently with a collective, n
/// elements each:
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
