//===- CastsGPU.h - Narrow floats by a GPU's instructions -------*- C++ -*-===//

#ifndef SCALIFY_LIB_CODEGEN_CASTSGPU_H
#define SCALIFY_LIB_CODEGEN_CASTSGPU_H

#include "KernelEmitter.h"

namespace scalify::codegen::instructions {

/// From F32, one or a vector; what does not saturate overflows as the format
/// has it, to an infinity or a NaN.
QuantizeResult encodeFloat8(mlir::OpBuilder &b, mlir::Location loc,
                            mlir::Value value, mlir::Type type, bool saturate);
mlir::Value decodeFloat8(mlir::OpBuilder &b, mlir::Location loc,
                         mlir::Value code, mlir::Type type);
/// F32 rounded to F16 or BF16, still in F32.
mlir::Value round16(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                    mlir::Type type);
/// Between BF16 values held in F32 and their 16 bits in memory.
mlir::Value packBF16(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value);
mlir::Value unpackBF16(mlir::OpBuilder &b, mlir::Location loc,
                       mlir::Value stored);

} // namespace scalify::codegen::instructions

#endif // SCALIFY_LIB_CODEGEN_CASTSGPU_H
