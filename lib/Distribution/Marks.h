//===- Marks.h - What Shardy is not to see ----------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_MARKS_H
#define SCALIFY_LIB_DISTRIBUTION_MARKS_H

#include "mlir/Support/LLVM.h"

namespace scalify {

/// On an `optimization_barrier`: the `name` and the `attrs` of the op that it
/// stands for.
inline constexpr llvm::StringLiteral kMarkAttr = "scalify.mark";

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_MARKS_H
