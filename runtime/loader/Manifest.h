// Reads a manifest's JSON into a Program and checks every claim in it.
#ifndef SCALIFY_RUNTIME_LOADER_MANIFEST_H
#define SCALIFY_RUNTIME_LOADER_MANIFEST_H

#include "loader/Program.h"

#include <string>

namespace scalify::rt {

constexpr int32_t manifestVersion = 3;

/// Parses `json`. `fileSize` bounds the sections. Throws Error.
Program parseManifest(const std::string &json, int64_t fileSize);

/// Rows that one task of a kernel computes: a multiple of `grain` that depends
/// on the kernel alone, so that the cut is the same for any thread count.
int64_t chooseRowsPerTask(int64_t rows, int64_t grain, int64_t bytes);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_MANIFEST_H
