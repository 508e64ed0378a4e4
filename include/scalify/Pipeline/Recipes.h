//===- Recipes.h - Recipes by name, as text and as JSON ---------*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_RECIPES_H
#define SCALIFY_PIPELINE_RECIPES_H

#include "scalify/Dialect/Scalify/RecipeText.h"
#include "scalify/Pipeline/Diagnostics.h"

namespace scalify {

/// A preset's name, or the text of a `#scalify.recipe<...>`.
mlir::FailureOr<RecipeAttr> readRecipe(llvm::StringRef text,
                                       mlir::MLIRContext *context);

/// The value of every part of that recipe, as a JSON object.
mlir::FailureOr<std::string>
readRecipeAsJSON(llvm::StringRef text,
                 std::vector<DiagnosticRecord> &diagnostics);

/// The shortest text of a recipe of that name and those parts, a JSON list of
/// [part, value]. A list that is none is an error like any other.
mlir::FailureOr<std::string>
printRecipe(llvm::StringRef name, llvm::StringRef parts,
            std::vector<DiagnosticRecord> &diagnostics);

} // namespace scalify

#endif // SCALIFY_PIPELINE_RECIPES_H
