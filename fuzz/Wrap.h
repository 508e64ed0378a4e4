// Artefacts around a manifest, with the kernels of the runtime's tests.
#ifndef SCALIFY_FUZZ_WRAP_H
#define SCALIFY_FUZZ_WRAP_H

#include "GpuArtefact.h"

namespace scalify::fuzz {

inline bool isOfGpu(const rt::test::Json &manifest) {
  return manifest.is_object() && manifest.contains("device") &&
         manifest["device"] == "cuda";
}

/// Returns an artefact of a right header and hash. If the manifest is an
/// object, its sections are those of the artefact, since most inputs would fail
/// there; otherwise the artefact has its `text`.
inline std::string wrap(const rt::test::Json &manifest,
                        const std::string &text) {
  if (!manifest.is_object())
    return rt::test::packText(text, std::string(8192, '\0'));
  static const std::string cpu = rt::test::kernels(),
                           gpu = rt::test::gpuKernels();
  return rt::test::pack(manifest, isOfGpu(manifest) ? gpu : cpu,
                        std::string(256, '\x3f'));
}

} // namespace scalify::fuzz

#endif // SCALIFY_FUZZ_WRAP_H
