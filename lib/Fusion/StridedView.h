//===- StridedView.h - Values as strided views of others --------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_STRIDEDVIEW_H
#define SCALIFY_LIB_FUSION_STRIDEDVIEW_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace scalify {

struct Dim {
  int64_t size, stride;
};

/// Element (i, j, ..) of the value is element offset + i * stride0 + .. of
/// `base` in row-major order.
struct StridedView {
  mlir::Value base;
  int64_t offset = 0;
  llvm::SmallVector<Dim> dims;

  /// Returns the row-major view of the value itself.
  static StridedView identity(mlir::Value value);
  /// Returns the view of the source of the transposes, slices and reshapes that
  /// produce the value.
  static StridedView of(mlir::Value value);
};

/// Collapses the dimensions into one, if one stride can describe it.
std::optional<Dim> collapse(llvm::ArrayRef<Dim> dims);

/// Reshapes the dimensions, if strides can describe the result.
std::optional<llvm::SmallVector<Dim>>
reshapeDims(llvm::ArrayRef<Dim> dims, llvm::ArrayRef<int64_t> shape);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_STRIDEDVIEW_H
