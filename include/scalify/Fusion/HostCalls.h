//===- HostCalls.h - Attributes of host calls -------------------*- C++ -*-===//

#ifndef SCALIFY_FUSION_HOSTCALLS_H
#define SCALIFY_FUSION_HOSTCALLS_H

#include "llvm/ADT/StringRef.h"

namespace scalify::plan {

/// On a host call: the shapes of the callee's operands and results, one array
/// for each of the call's reads and writes. They may differ from the buffer's
/// shape where a reshape shares the buffer.
inline constexpr llvm::StringLiteral kShapesAttr = "plan.shapes";

} // namespace scalify::plan

#endif // SCALIFY_FUSION_HOSTCALLS_H
