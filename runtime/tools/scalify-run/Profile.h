// Tables of times and of cast counts.
#ifndef SCALIFY_RUNTIME_TOOLS_PROFILE_H
#define SCALIFY_RUNTIME_TOOLS_PROFILE_H

#include "scalify/runtime.h"

#include <string>

namespace scalify::rt {

/// Returns the times of commands, summed by name, the most expensive first.
std::string profileTable(const scalify_rt_executable *executable);

/// Returns one line for each quantizing cast, the most saturated first.
std::string healthTable(const scalify_rt_executable *executable);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_TOOLS_PROFILE_H
