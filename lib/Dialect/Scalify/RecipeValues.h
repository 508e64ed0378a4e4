//===- RecipeValues.h - The values of a recipe's parts ----------*- C++ -*-===//
//
// Parsing and JSON of each kind of value; the text is written from the JSON.
// Parsers here emit no errors: their caller reports the expected values.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_SCALIFY_RECIPEVALUES_H
#define SCALIFY_DIALECT_SCALIFY_RECIPEVALUES_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/Support/JSON.h"

namespace scalify {

using Exceptions = llvm::SmallVector<FormatOverride>;
using Places = llvm::SmallVector<mlir::StringAttr>;
using Sizes = std::array<int64_t, 2>;

/// A null type is written `given`: as in the program.
mlir::ParseResult parseValue(mlir::AsmParser &parser, mlir::Type &format);
mlir::ParseResult parseValue(mlir::AsmParser &parser, DotFormats &formats);
mlir::ParseResult parseValue(mlir::AsmParser &parser, Exceptions &exceptions);
mlir::ParseResult parseValue(mlir::AsmParser &parser, Places &places);
mlir::ParseResult parseValue(mlir::AsmParser &parser, Sizes &sizes);
mlir::ParseResult parseValue(mlir::AsmParser &parser, int64_t &number);
mlir::ParseResult parseValue(mlir::AsmParser &parser, DotSums &sums);
template <typename EnumT, typename = std::enable_if_t<std::is_enum_v<EnumT>>>
mlir::ParseResult parseValue(mlir::AsmParser &parser, EnumT &value) {
  llvm::StringRef word;
  if (failed(parser.parseOptionalKeyword(&word)))
    return mlir::failure();
  std::optional<EnumT> found = symbolizeEnum<EnumT>(word);
  value = found.value_or(value);
  return mlir::success(found.has_value());
}

llvm::json::Value toJSON(mlir::Type format);
llvm::json::Value toJSON(DotFormats formats);
/// Returns a list of [pattern, formats], since their order matters.
llvm::json::Value toJSON(const Exceptions &exceptions);
llvm::json::Value toJSON(const Places &places);
llvm::json::Value toJSON(Sizes sizes);
llvm::json::Value toJSON(int64_t number);
llvm::json::Value toJSON(DotSums sums);
template <typename EnumT, typename = std::enable_if_t<std::is_enum_v<EnumT>>>
llvm::json::Value toJSON(EnumT value) {
  return stringifyEnum(value);
}

/// Writes a value from JSON, valid or not: the parser checks it. Words are not
/// quoted unless `quotes`.
void writeValue(llvm::raw_ostream &os, const llvm::json::Value &value,
                bool quotes = false);
void writeExceptions(llvm::raw_ostream &os, const llvm::json::Value &value);

/// Returns the text from `text` to the end of a part's value.
llvm::StringRef extractValueText(const char *text);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_RECIPEVALUES_H
