//===- Lists.h - Lists of attributes as text --------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DIALECT_SDY_LISTS_H
#define SCALIFY_LIB_DIALECT_SDY_LISTS_H

#include "mlir/IR/DialectImplementation.h"

namespace scalify::sdy {

/// Parses elements between delimiters.
template <typename ElementT>
mlir::FailureOr<llvm::SmallVector<ElementT>>
parseList(mlir::AsmParser &parser, mlir::AsmParser::Delimiter delimiter) {
  llvm::SmallVector<ElementT> list;
  auto parseOne = [&]() -> mlir::ParseResult {
    mlir::FailureOr<ElementT> element =
        mlir::FieldParser<ElementT>::parse(parser);
    if (mlir::failed(element))
      return mlir::failure();
    list.push_back(*element);
    return mlir::success();
  };
  if (parser.parseCommaSeparatedList(delimiter, parseOne))
    return mlir::failure();
  return list;
}

template <typename ElementT>
void printList(mlir::AsmPrinter &printer, llvm::ArrayRef<ElementT> list,
               llvm::StringRef brackets) {
  printer << brackets.front();
  llvm::interleaveComma(list, printer, [&](ElementT element) {
    printer.printStrippedAttrOrType(element);
  });
  printer << brackets.back();
}

} // namespace scalify::sdy

#endif // SCALIFY_LIB_DIALECT_SDY_LISTS_H
