//===- StridedView.h - Values as strided windows on others ------*- C++ -*-===//

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

  /// The value as a window on itself.
  static StridedView identity(mlir::Value value);
  /// The value through the transposes, slices and reshapes that make it.
  static StridedView of(mlir::Value value);
};

/// The dimensions in order as one, if memory allows.
std::optional<Dim> collapse(llvm::ArrayRef<Dim> dims);

/// The same elements in another shape, if strides can say it.
std::optional<llvm::SmallVector<Dim>>
reshapeDims(llvm::ArrayRef<Dim> dims, llvm::ArrayRef<int64_t> shape);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_STRIDEDVIEW_H
