//===- DeviceTables.h - Numbers that depend on the device -------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_DEVICETABLES_H
#define SCALIFY_DIALECT_STABLEHLO_DEVICETABLES_H

#include "mlir/IR/Builders.h"

namespace scalify {

/// Looks up this device's row in a table of i32 with a row per device: a tensor
/// of rank 1, or a scalar if `isScalar`.
mlir::Value lookUp(mlir::OpBuilder &builder, mlir::Location loc,
                   llvm::ArrayRef<int32_t> perDevice, int64_t numDevices,
                   bool isScalar = true);

} // namespace scalify

#endif // SCALIFY_DIALECT_STABLEHLO_DEVICETABLES_H
