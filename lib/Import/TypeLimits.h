//===- TypeLimits.h - Sizes of tensors that can be counted ------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_TYPELIMITS_H
#define SCALIFY_LIB_IMPORT_TYPELIMITS_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/MathExtras.h"

namespace scalify::import {

/// True if 63 bits hold the bytes of a tensor of the widest elements and of
/// these static sizes: passes multiply them unchecked.
inline bool isCountable(llvm::ArrayRef<int64_t> shape) {
  int64_t bytes = 16;
  for (int64_t extent : shape)
    if (mlir::ShapedType::isStatic(extent) &&
        (extent < 0 || llvm::MulOverflow(bytes, extent, bytes)))
      return false;
  return true;
}

inline constexpr llvm::StringLiteral kUncountable =
    ", which has more bytes than 63 bits can count";

/// Kernels have a loop within another for each dimension, and passes walk them
/// recursively.
inline constexpr int64_t kMostDims = 1024;

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_TYPELIMITS_H
