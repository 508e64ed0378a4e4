//===- RecipeText.h - Recipes for those who write no IR ---------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SCALIFY_RECIPETEXT_H
#define SCALIFY_DIALECT_SCALIFY_RECIPETEXT_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "llvm/Support/JSON.h"

namespace scalify {

/// The names of all parts, in the order in which they are printed; then those
/// of words that set several.
llvm::SmallVector<llvm::StringRef>
getRecipePartNames(bool withShorthands = true);

/// The value of every part, and `name`. A format is its name; formats of dots
/// are true, false (wide), a format or two of them; `where` is a list of
/// [pattern, formats].
llvm::json::Object toJSON(RecipeAttr recipe);

/// The kind of dot that an exception's pattern starts with, as in
/// `weight_grad:layer0/`, and the regular expression.
std::pair<std::optional<DotKind>, llvm::StringRef>
splitPattern(mlir::StringAttr pattern);

/// The text of an attribute, for the parser to judge. `parts` is a list of
/// [name, value], in JSON as `toJSON` has it; later ones override earlier ones.
std::string makeRecipeText(llvm::StringRef name,
                           const llvm::json::Array &parts);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_RECIPETEXT_H
