//===- HostCalls.h - What plans say of calls into the process ---*- C++ -*-===//

#ifndef SCALIFY_FUSION_HOSTCALLS_H
#define SCALIFY_FUSION_HOSTCALLS_H

#include "llvm/ADT/StringRef.h"

namespace scalify::plan {

/// On a host call: the shapes of what its function takes and gives, as an array
/// for each of its reads and writes. A buffer that a reshape shares may have
/// another one.
inline constexpr llvm::StringLiteral kShapesAttr = "plan.shapes";

} // namespace scalify::plan

#endif // SCALIFY_FUSION_HOSTCALLS_H
