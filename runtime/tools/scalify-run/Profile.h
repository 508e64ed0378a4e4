// Tables of time and of counts.
#ifndef SCALIFY_RUNTIME_TOOLS_PROFILE_H
#define SCALIFY_RUNTIME_TOOLS_PROFILE_H

#include "scalify/runtime.h"

#include <string>

namespace scalify::rt {

/// Commands of equal name together, the most expensive first.
std::string profileTable(const scalify_rt_executable *executable);

/// One line for each quantizing cast, the most saturated first.
std::string healthTable(const scalify_rt_executable *executable);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_TOOLS_PROFILE_H
