//===- ElementAttr.h - Element types of the caller --------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SCALIFY_ELEMENTATTR_H
#define SCALIFY_DIALECT_SCALIFY_ELEMENTATTR_H

#include "llvm/ADT/StringRef.h"

namespace scalify {

/// The element type of an argument or result for the caller, where the plan's
/// memory holds another: complex numbers by parts, integers below 8 bits.
inline constexpr llvm::StringLiteral kElementAttr = "scalify.element";

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_ELEMENTATTR_H
