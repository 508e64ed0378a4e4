//===- Windows.h - Windows of tensors, as an index --------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_WINDOWS_H
#define SCALIFY_LIB_FUSION_WINDOWS_H

#include "scalify/Dialect/StableHLO/Window.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify {

/// `value` with `padding`, of rank 0, as far as the windows reach beyond its
/// edges and between its elements. One window a dimension.
mlir::Value padForWindows(mlir::ImplicitLocOpBuilder &builder,
                          mlir::Value value, mlir::Value padding,
                          llvm::ArrayRef<stablehlo::WindowDim> windows);

/// The windows of what is padded already: `value` with the places of each
/// window, and behind them the places inside, of dimensions that have windows
/// of more than one element or that move by more than one.
mlir::Value windowsOf(mlir::ImplicitLocOpBuilder &builder, mlir::Value value,
                      llvm::ArrayRef<stablehlo::WindowDim> windows);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_WINDOWS_H
