// Opens CUDA's libraries when a step needs them.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_LIBRARY_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_LIBRARY_H

#include <string>
#include <vector>

namespace scalify::rt::cuda {

/// Names folders to search first; see docs/runtime.md.
constexpr const char *foldersVariable = "SCALIFY_CUDA_LIBRARIES";
constexpr const char *wayOut =
    "; to see what a step would do without a GPU, load it with device 'null'";

/// Opens the first of `names` that exists. Throws an Error with `advice` if
/// none does. Libraries are never closed: the driver keeps threads of its own.
void *openLibrary(const std::vector<const char *> &names,
                  const std::string &advice);

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_LIBRARY_H
