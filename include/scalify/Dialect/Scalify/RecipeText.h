//===- RecipeText.h - Recipes as text and JSON ------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SCALIFY_RECIPETEXT_H
#define SCALIFY_DIALECT_SCALIFY_RECIPETEXT_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "llvm/Support/JSON.h"

namespace scalify {

/// Returns the names of all parts, in the order in which they are printed,
/// followed by the names of shorthands that set several parts.
llvm::SmallVector<llvm::StringRef>
getRecipePartNames(bool withShorthands = true);

/// Returns the value of every part, and `name`. A format is its name. Formats
/// of dots are true, false (wide), a format or two formats. `where` is a list
/// of [pattern, formats].
llvm::json::Object toJSON(RecipeAttr recipe);

/// Splits an exception's pattern into the kind of dot that it starts with, as
/// in `weight_grad:layer0/`, and the regular expression.
std::pair<std::optional<DotKind>, llvm::StringRef>
splitPattern(mlir::StringAttr pattern);

/// Returns the text of an attribute, which the parser then checks. `parts` is a
/// list of [name, value], in JSON as from `toJSON`; later ones override earlier
/// ones.
std::string makeRecipeText(llvm::StringRef name,
                           const llvm::json::Array &parts);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_RECIPETEXT_H
