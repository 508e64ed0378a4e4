//===- Windows.h - Windows of tensors as index maps -------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_WINDOWS_H
#define SCALIFY_LIB_FUSION_WINDOWS_H

#include "scalify/Dialect/StableHLO/Window.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify {

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
