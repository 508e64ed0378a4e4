//===- KernelObjects.h - Object code of kernels, by contents ----*- C++ -*-===//

#ifndef SCALIFY_TARGET_CPU_KERNELOBJECTS_H
#define SCALIFY_TARGET_CPU_KERNELOBJECTS_H

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <string>

namespace scalify {

/// The object code of a kernel. It is the same for all kernels that differ only
/// in their names and locations.
struct KernelObject {
  /// The name that the module gives to the kernel.
  std::string name;
  /// The hidden symbol that the object code defines, which follows from the
  /// kernel's contents.
  std::string symbol;
  std::shared_ptr<const std::string> code;
};

/// Compiles each kernel of a module of LLVM functions by itself, or finds its
/// code where it was kept (`keepCode`). Consumes the functions.
mlir::FailureOr<llvm::SmallVector<KernelObject>>
compileKernelObjects(mlir::ModuleOp kernels, llvm::StringRef mcpu);

} // namespace scalify

#endif // SCALIFY_TARGET_CPU_KERNELOBJECTS_H
