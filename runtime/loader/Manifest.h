// Reads a manifest's JSON into a Program and checks all of it.
#ifndef SCALIFY_RUNTIME_LOADER_MANIFEST_H
#define SCALIFY_RUNTIME_LOADER_MANIFEST_H

#include "loader/Program.h"

#include <string>

namespace scalify::rt {

constexpr int32_t manifestVersion = 5;

/// Parses `json`. `fileSize` bounds the sections. Throws an Error on failure.
Program parseManifest(const std::string &json, int64_t fileSize);

/// Returns the rows per task of a kernel: a multiple of `grain` that depends on
/// the kernel alone, so that tasks are the same for any thread count.
int64_t chooseRowsPerTask(int64_t rows, int64_t grain, int64_t bytes);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_MANIFEST_H
