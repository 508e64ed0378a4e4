//===- Window.h - Windows of reductions and convolutions --------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_WINDOW_H
#define SCALIFY_DIALECT_STABLEHLO_WINDOW_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify::stablehlo {

/// The movement of a window along one dimension.
struct WindowDim {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t low = 0;
  int64_t high = 0;
  int64_t baseDilation = 1;
  int64_t windowDilation = 1;

  /// Returns the number of positions over `base` elements.
  int64_t positions(int64_t base) const;
};

/// The optional attributes that describe a window.
struct WindowAttrs {
  llvm::ArrayRef<int64_t> sizes;
  std::optional<llvm::ArrayRef<int64_t>> strides;
  std::optional<mlir::DenseIntElementsAttr> padding;
  std::optional<llvm::ArrayRef<int64_t>> baseDilations;
  std::optional<llvm::ArrayRef<int64_t>> windowDilations;
};

/// Checks the attributes against each other and fills in the defaults: one
/// entry per dimension, positive sizes, strides and dilations.
llvm::FailureOr<llvm::SmallVector<WindowDim>>
readWindow(mlir::Operation *op, const WindowAttrs &attrs);

/// Returns the shape of all positions of a window over `base`.
llvm::SmallVector<int64_t> windowShape(llvm::ArrayRef<int64_t> base,
                                       llvm::ArrayRef<WindowDim> window);

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_WINDOW_H
