//===- KeptCode.h - Code of kernels, kept by contents -----------*- C++ -*-===//

#ifndef SCALIFY_CODEGEN_KEPTCODE_H
#define SCALIFY_CODEGEN_KEPTCODE_H

#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"

#include <memory>
#include <string>

namespace scalify {

/// Returns a hash of the texts in hexadecimal digits.
std::string hashOf(llvm::ArrayRef<llvm::StringRef> texts);

/// Returns an op's text, with all elements of constants and without locations.
std::string textWithoutLocations(mlir::Operation *op);

using Code = std::shared_ptr<const std::string>;

/// Returns the code that was kept under a key, or null. `key` must follow from
/// all that the code depends on, but for the versions of LLVM and of this
/// compiler. This process keeps code, and so does the folder that the
/// environment names in SCALIFY_CACHE, for other processes. A folder that
/// cannot be used is a warning at `loc`.
Code findCode(mlir::Location loc, llvm::StringRef key);

/// Keeps code under a key.
Code addCode(mlir::Location loc, llvm::StringRef key, std::string made);

/// Returns what `make` makes, or has made before.
mlir::FailureOr<Code>
keepCode(mlir::Location loc, llvm::StringRef key,
         llvm::function_ref<mlir::FailureOr<std::string>()> make);

} // namespace scalify

#endif // SCALIFY_CODEGEN_KEPTCODE_H
