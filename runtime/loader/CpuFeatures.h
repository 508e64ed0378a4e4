// Checks that this machine supports the CPU that kernels were compiled for.
#ifndef SCALIFY_RUNTIME_LOADER_CPUFEATURES_H
#define SCALIFY_RUNTIME_LOADER_CPUFEATURES_H

#include <string>

namespace scalify::rt {

/// Returns the highest x86-64 level of this CPU and operating system, 1 to 4; 0
/// on another architecture.
int hostLevel();

/// True if the processor multiplies vectors of BF16.
bool hasBF16Unit();

/// True if it multiplies them faster than vectors of F32.
bool hasFastBF16Unit();

/// True if the processor multiplies tiles of BF16, and the operating system
/// can save them.
bool hasAmxBF16();

/// Returns the x86-64 level that code for `mcpu` needs, or -1 for an unknown
/// name.
int levelOf(const std::string &mcpu);

/// Throws an Error if code compiled for `mcpu` cannot run here.
void requireCpu(const std::string &mcpu);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_CPUFEATURES_H
