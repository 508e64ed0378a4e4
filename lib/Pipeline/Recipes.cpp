//===- Recipes.cpp - Recipes by name, as text and as JSON -----------------===//

#include "scalify/Pipeline/Recipes.h"
#include "scalify/Pipeline/Nesting.h"

#include "mlir/AsmParser/AsmParser.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace scalify;

FailureOr<RecipeAttr> scalify::readRecipe(StringRef text,
                                          MLIRContext *context) {
  Attribute attr;
  if (text.starts_with("#")) {
    if (failed(checkNesting(text, "recipe", kNestingLimit, *context)))
      return failure();
    attr = parseAttribute(text, context);
    // The recipe's parser has reported the error.
    if (!attr && text.starts_with("#scalify.recipe"))
      return failure();
  } else {
    attr = RecipeAttr::getPreset(context, text);
  }
  if (auto recipe = dyn_cast_or_null<RecipeAttr>(attr))
    return recipe;
  return emitError(UnknownLoc::get(context))
         << "unknown recipe '" << text << "': expected one of "
         << llvm::join(RecipeAttr::getPresetNames(), ", ")
         << ", or the text of a #scalify.recipe<...>";
}

namespace {
/// A context with only the Scalify dialect, for recipes.
struct RecipeContext {
  RecipeContext(StringRef text, std::vector<DiagnosticRecord> &diagnostics)
      : context(MLIRContext::Threading::DISABLED),
        collector(&context, "recipe", text, diagnostics), text(text),
        diagnostics(diagnostics) {
    context.loadDialect<ScalifyDialect>();
  }
  /// The attribute parser uses the text itself as file name; call it "recipe".
  ~RecipeContext() {
    for (DiagnosticRecord &record : diagnostics)
      if (StringRef(record.location).starts_with(text))
        record.location.replace(0, text.size(), "recipe");
  }

  MLIRContext context;
  DiagnosticCollector collector;
  std::string text;
  std::vector<DiagnosticRecord> &diagnostics;
};
} // namespace

FailureOr<std::string>
scalify::readRecipeAsJSON(StringRef text,
                          std::vector<DiagnosticRecord> &diagnostics) {
  RecipeContext scope(text, diagnostics);
  FailureOr<RecipeAttr> recipe = readRecipe(text, &scope.context);
  if (failed(recipe))
    return failure();
  std::string json;
  llvm::raw_string_ostream(json) << llvm::json::Value(toJSON(*recipe));
  return json;
}

/// Returns null unless `json` is a list of [name, value].
static const llvm::json::Array *getParts(const llvm::json::Value &json) {
  const llvm::json::Array *parts = json.getAsArray();
  bool isList =
      parts && llvm::all_of(*parts, [](const llvm::json::Value &entry) {
        const llvm::json::Array *pair = entry.getAsArray();
        return pair && pair->size() == 2 && pair->front().getAsString();
      });
  return isList ? parts : nullptr;
}

FailureOr<std::string>
scalify::printRecipe(StringRef name, StringRef json,
                     std::vector<DiagnosticRecord> &diagnostics) {
  llvm::json::Value list = nullptr;
  if (llvm::Expected<llvm::json::Value> value = parseJSON(json))
    list = std::move(*value);
  else
    llvm::consumeError(value.takeError());
  const llvm::json::Array *parts = getParts(list);
  std::string text = parts ? makeRecipeText(name, *parts) : "";
  RecipeContext scope(text, diagnostics);
  if (!parts)
    return emitError(UnknownLoc::get(&scope.context))
           << "the parts of a recipe must be a list of [name, value]";
  FailureOr<RecipeAttr> recipe = readRecipe(text, &scope.context);
  if (failed(recipe))
    return failure();
  std::string printed;
  llvm::raw_string_ostream(printed) << *recipe;
  return printed;
}
