//===- CastsGPU.h - Narrow float casts by GPU instructions ------*- C++ -*-===//

#ifndef SCALIFY_LIB_CODEGEN_CASTSGPU_H
#define SCALIFY_LIB_CODEGEN_CASTSGPU_H

#include "KernelEmitter.h"

namespace scalify::codegen::instructions {

/// Casts an F32 scalar or vector to FP8. Without `saturate`, overflow gives the
/// format's infinity or NaN.
QuantizeResult encodeFloat8(mlir::OpBuilder &b, mlir::Location loc,
                            mlir::Value value, mlir::Type type, bool saturate);
mlir::Value decodeFloat8(mlir::OpBuilder &b, mlir::Location loc,
                         mlir::Value code, mlir::Type type);
/// Rounds F32 to F16 or BF16; the result is held in F32.
mlir::Value round16(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                    mlir::Type type);
/// Converts between BF16 values held in F32 and their 16 bits in memory.
mlir::Value packBF16(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value);
mlir::Value unpackBF16(mlir::OpBuilder &b, mlir::Location loc,
                       mlir::Value stored);

} // namespace scalify::codegen::instructions

#endif // SCALIFY_LIB_CODEGEN_CASTSGPU_H
