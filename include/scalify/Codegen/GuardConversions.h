//===- GuardConversions.h - Guards around float conversions -----*- C++ -*-===//

#ifndef SCALIFY_CODEGEN_GUARDCONVERSIONS_H
#define SCALIFY_CODEGEN_GUARDCONVERSIONS_H

namespace mlir {
class Operation;
} // namespace mlir

namespace scalify::codegen {

/// Keeps LLVM from optimising float conversions beyond the program's semantics.
///
/// A float-to-integer conversion must give some integer for every float. For
/// NaN and out-of-range floats LLVM's result is poison. If LLVM knows the
/// float, everything computed from the poison is poison too, and is not even
/// stored: the memory keeps its old contents.
///
/// A comparison of a widened float must compare the wide value. LLVM 22
/// compares the narrow one instead, and then takes x > 0 ? 0 : x for x >= 0 ? 0
/// : x, which loses the sign of -0.
///
/// F64 is rounded to F16 by way of F32. LLVM 22 lets both roundings pass a
/// copied sign, and the sign's own F64 is then rounded to F16 by a library
/// call.
void guardConversions(mlir::Operation *kernels);

} // namespace scalify::codegen

#endif // SCALIFY_CODEGEN_GUARDCONVERSIONS_H
