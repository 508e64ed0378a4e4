//===- Recipes.h - Recipes by name, as text and as JSON ---------*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_RECIPES_H
#define SCALIFY_PIPELINE_RECIPES_H

#include "scalify/Dialect/Scalify/RecipeText.h"
#include "scalify/Pipeline/Diagnostics.h"

namespace scalify {

/// Reads a recipe from a preset's name or the text of a `#scalify.recipe<...>`.
mlir::FailureOr<RecipeAttr> readRecipe(llvm::StringRef text,
                                       mlir::MLIRContext *context);

/// Returns the values of all parts of the recipe as a JSON object.
mlir::FailureOr<std::string>
readRecipeAsJSON(llvm::StringRef text,
                 std::vector<DiagnosticRecord> &diagnostics);

/// Returns the shortest text of a recipe with the given name and parts. `parts`
/// is a JSON list of [part, value]. A malformed list is a diagnostic.
mlir::FailureOr<std::string>
printRecipe(llvm::StringRef name, llvm::StringRef parts,
            std::vector<DiagnosticRecord> &diagnostics);

} // namespace scalify

#endif // SCALIFY_PIPELINE_RECIPES_H
