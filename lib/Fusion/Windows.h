//===- Windows.h - Windows of tensors as index maps -------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_WINDOWS_H
#define SCALIFY_LIB_FUSION_WINDOWS_H

#include "scalify/Dialect/StableHLO/Window.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify {

/// Checks that 63 bits count the bytes of a tensor of `type` that is padded for
/// windows, and of the windows. Emits an error if not: a small result may take
/// few positions of a huge window.
llvm::LogicalResult checkWindows(mlir::Operation *op,
                                 mlir::RankedTensorType type,
                                 llvm::ArrayRef<stablehlo::WindowDim> windows);

/// Pads `value` with `padding`, of rank 0, at its edges as far as the windows
/// reach and between its elements. There is one window per dimension.
mlir::Value padForWindows(mlir::ImplicitLocOpBuilder &builder,
                          mlir::Value value, mlir::Value padding,
                          llvm::ArrayRef<stablehlo::WindowDim> windows);

/// Builds the windows of a padded `value`: dimensions of the window positions,
/// followed by the positions inside a window for each dimension with windows of
/// more than one element or a stride of more than one.
mlir::Value windowsOf(mlir::ImplicitLocOpBuilder &builder, mlir::Value value,
                      llvm::ArrayRef<stablehlo::WindowDim> windows);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_WINDOWS_H
