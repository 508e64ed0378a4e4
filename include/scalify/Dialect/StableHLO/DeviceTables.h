//===- DeviceTables.h - Numbers that depend on the device -------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_DEVICETABLES_H
#define SCALIFY_DIALECT_STABLEHLO_DEVICETABLES_H

#include "mlir/IR/Builders.h"

namespace scalify {

/// Numbers that depend on the device, i32 as many as there are rows for each
/// device: a tensor of rank 1, or a scalar where `isScalar`.
mlir::Value lookUp(mlir::OpBuilder &builder, mlir::Location loc,
                   llvm::ArrayRef<int32_t> perDevice, int64_t numDevices,
                   bool isScalar = true);

} // namespace scalify

#endif // SCALIFY_DIALECT_STABLEHLO_DEVICETABLES_H
