//===- RecipeValues.h - The values of a recipe's parts ----------*- C++ -*-===//
//
// Parsing, printing and JSON of each kind of value. Parsers here emit no
// errors: their caller reports the expected values.
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

/// A null type is printed `given`: as in the program.
mlir::ParseResult parseValue(mlir::AsmParser &parser, mlir::Type &format);
mlir::ParseResult parseValue(mlir::AsmParser &parser, DotFormats &formats);
mlir::ParseResult parseValue(mlir::AsmParser &parser, Exceptions &exceptions);
mlir::ParseResult parseValue(mlir::AsmParser &parser, Places &places);
mlir::ParseResult parseValue(mlir::AsmParser &parser, Sizes &sizes);
mlir::ParseResult parseValue(mlir::AsmParser &parser, int64_t &number);
mlir::ParseResult parseValue(mlir::AsmParser &parser, ScaleSource &source);
mlir::ParseResult parseValue(mlir::AsmParser &parser, HistoryUse &use);
mlir::ParseResult parseValue(mlir::AsmParser &parser, RoundingMode &rounding);
mlir::ParseResult parseValue(mlir::AsmParser &parser, GradientScaling &scaling);
mlir::ParseResult parseValue(mlir::AsmParser &parser, DotSums &sums);

void printValue(llvm::raw_ostream &os, mlir::Type format);
void printValue(llvm::raw_ostream &os, DotFormats formats);
void printValue(llvm::raw_ostream &os, const Exceptions &exceptions);
void printValue(llvm::raw_ostream &os, const Places &places);
void printValue(llvm::raw_ostream &os, Sizes sizes);
void printValue(llvm::raw_ostream &os, int64_t number);
void printValue(llvm::raw_ostream &os, ScaleSource source);
void printValue(llvm::raw_ostream &os, HistoryUse use);
void printValue(llvm::raw_ostream &os, RoundingMode rounding);
void printValue(llvm::raw_ostream &os, GradientScaling scaling);
void printValue(llvm::raw_ostream &os, DotSums sums);

llvm::json::Value toJSON(mlir::Type format);
llvm::json::Value toJSON(DotFormats formats);
/// Returns a list of [pattern, formats], since their order matters.
llvm::json::Value toJSON(const Exceptions &exceptions);
llvm::json::Value toJSON(const Places &places);
llvm::json::Value toJSON(Sizes sizes);
llvm::json::Value toJSON(int64_t number);
llvm::json::Value toJSON(ScaleSource source);
llvm::json::Value toJSON(HistoryUse use);
llvm::json::Value toJSON(RoundingMode rounding);
llvm::json::Value toJSON(GradientScaling scaling);
llvm::json::Value toJSON(DotSums sums);

/// Writes a value from JSON, valid or not: the parser checks it. Words are not
/// quoted unless `quotes`.
void writeValue(llvm::raw_ostream &os, const llvm::json::Value &value,
                bool quotes = false);
void writeExceptions(llvm::raw_ostream &os, const llvm::json::Value &value);

/// Returns the text from `text` to the end of a part's value.
llvm::StringRef extractValueText(const char *text);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_RECIPEVALUES_H
