//===- GuardConversions.h - Conversions as the program means them -*- C++ -*-=//

#ifndef SCALIFY_LIB_CODEGEN_GUARDCONVERSIONS_H
#define SCALIFY_LIB_CODEGEN_GUARDCONVERSIONS_H

namespace mlir {
class Operation;
} // namespace mlir

namespace scalify::codegen {

/// Keeps LLVM from taking conversions of floats for more than they are.
///
/// The integer that a float becomes is some integer, whatever the float. Of a
/// NaN, and of what no integer holds, LLVM has poison; where it knows the
/// float, all that is computed of that is poison too, and not even stored: the
/// memory keeps what it had.
///
/// A comparison of a widened float is of the wide one. LLVM 22 compares the
/// narrow one instead, and then takes x > 0 ? 0 : x for x >= 0 ? 0 : x, which
/// loses the sign of -0.
void guardConversions(mlir::Operation *kernels);

} // namespace scalify::codegen

#endif // SCALIFY_LIB_CODEGEN_GUARDCONVERSIONS_H
