//===- BooleanBlobs.h - Boolean constants across MLIR versions --*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_BOOLEANBLOBS_H
#define SCALIFY_DIALECT_STABLEHLO_BOOLEANBLOBS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>

namespace scalify::stablehlo {

/// MLIR 22 parses a boolean constant's hex blob as one bit per element, later
/// versions (and so the text that JAX prints) as one byte. Packs blobs of one
/// byte per element to bits; none if the text has no such blob. Line numbers
/// are preserved.
std::optional<std::string> packBooleanBlobs(llvm::StringRef text);

/// Prints a boolean constant as nested lists, which every version parses.
void printBooleanElements(llvm::raw_ostream &os,
                          mlir::DenseElementsAttr elements);

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_BOOLEANBLOBS_H
