//===- RecipeParts.h - The list of a recipe's parts -------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SCALIFY_RECIPEPARTS_H
#define SCALIFY_DIALECT_SCALIFY_RECIPEPARTS_H

#include "RecipeValues.h"
#include "scalify/Dialect/Scalify/RecipeText.h"

#include <memory>
#include <vector>

namespace scalify {

/// A recipe under construction: the parameters of the attribute, by value.
struct RecipeFields {
  explicit RecipeFields(RecipeAttr recipe);

  DotFormats &get(DotRole role) { return roles[static_cast<unsigned>(role)]; }
  const DotFormats &get(DotRole role) const {
    return roles[static_cast<unsigned>(role)];
  }

  ScaleSource scales;
  mlir::Type forward, gradient;
  llvm::SmallVector<DotFormats> roles;
  Exceptions overrides;
  StorageFormats storage;
  GradientFormats gradients;
  int64_t exponent;
  Places rescale, priors;
  BlockSizes blocks;
  DelayedScaling delayed;
  DotSums sums;
};

/// One part: conversions between text, JSON and the attribute's parameters.
class RecipePart {
public:
  RecipePart(llvm::StringRef name, std::string values)
      : name(name), values(std::move(values)) {}
  virtual ~RecipePart() = default;

  virtual mlir::ParseResult parse(mlir::AsmParser &parser,
                                  RecipeFields &fields) const = 0;
  virtual llvm::json::Value toJSON(const RecipeFields &fields) const = 0;
  virtual void write(llvm::raw_ostream &os,
                     const llvm::json::Value &value) const = 0;

  void print(llvm::raw_ostream &os, const RecipeFields &fields) const {
    write(os, toJSON(fields));
  }

  llvm::StringRef name;
  /// Its possible values, in words.
  std::string values;
};

/// All parts, in the order in which they are printed.
const std::vector<std::unique_ptr<RecipePart>> &getRecipeParts();

/// Shorthands that set several parts: `attention`, `moments` and `state`. The
/// last is not printed.
const std::vector<std::unique_ptr<RecipePart>> &getRecipeShorthands();

/// Returns a part or a shorthand; null if none has that name.
const RecipePart *findRecipePart(llvm::StringRef name);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_RECIPEPARTS_H
