//===- FreezeConversions.h - Integers of any float --------------*- C++ -*-===//

#ifndef SCALIFY_LIB_CODEGEN_FREEZECONVERSIONS_H
#define SCALIFY_LIB_CODEGEN_FREEZECONVERSIONS_H

namespace mlir {
class Operation;
} // namespace mlir

namespace scalify::codegen {

/// Makes what a float becomes as an integer some integer, whatever the float.
/// Of a NaN, and of what no integer holds, LLVM has poison; where it knows the
/// float, all that is computed of that is poison too, and not even stored: the
/// memory keeps what it had.
void freezeConversions(mlir::Operation *kernels);

} // namespace scalify::codegen

#endif // SCALIFY_LIB_CODEGEN_FREEZECONVERSIONS_H
