//===- Marks.h - Scale hints hidden from Shardy -----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_MARKS_H
#define SCALIFY_LIB_DISTRIBUTION_MARKS_H

#include "mlir/Support/LLVM.h"

namespace scalify {

/// On an `optimization_barrier`: the `name` and `attrs` of the encoded op.
inline constexpr llvm::StringLiteral kMarkAttr = "scalify.mark";

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_MARKS_H
