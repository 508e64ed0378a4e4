//===- AttrFields.h - Attributes as lists of named fields -------*- C++ -*-===//
//
// `<a = [0, 1], b = 2>`: fields are parsed in any order, and printed unless
// empty or zero. Shared with the chlo dialect.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_DIALECT_STABLEHLO_ATTRFIELDS_H
#define SCALIFY_LIB_DIALECT_STABLEHLO_ATTRFIELDS_H

#include "mlir/IR/OpImplementation.h"

namespace scalify::stablehlo {

/// One field: its name and the parser of its value.
struct Field {
  llvm::StringRef name;
  llvm::function_ref<mlir::ParseResult()> parse;
};

/// Parses `<name = value, ..>`; each field occurs at most once.
mlir::ParseResult parseFields(mlir::AsmParser &parser,
                              llvm::ArrayRef<Field> fields);

/// Parses `[0, 1]`.
mlir::ParseResult parseDims(mlir::AsmParser &parser,
                            llvm::SmallVectorImpl<int64_t> &dims);

/// Prints `<a = [0], b = 1>`, with commas between printed fields; the
/// destructor prints the closing bracket.
class FieldPrinter {
public:
  explicit FieldPrinter(mlir::AsmPrinter &printer) : os(printer.getStream()) {
    os << '<';
  }
  ~FieldPrinter() { os << '>'; }

  /// Prints a list, unless it is empty.
  void dims(llvm::StringRef name, llvm::ArrayRef<int64_t> values);
  /// Prints a number, unless it is zero.
  void nonZero(llvm::StringRef name, int64_t value);
  /// Prints the name and leaves the value to the caller.
  llvm::raw_ostream &begin(llvm::StringRef name);

private:
  llvm::raw_ostream &os;
  bool first = true;
};

} // namespace scalify::stablehlo

#endif // SCALIFY_LIB_DIALECT_STABLEHLO_ATTRFIELDS_H
