//===- DotLayers.h - The kind and the layer of each dot ---------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_DOTLAYERS_H
#define SCALIFY_PRECISION_DOTLAYERS_H

#include "scalify/Dialect/Scalify/RecipeText.h"
#include "scalify/Precision/DotRoles.h"

namespace scalify {

/// On a 16-bit dot that a model keeps out of FP8: the part of the recipe, and
/// the model's figures.
inline constexpr llvm::StringLiteral kJudgementAttr = "scalify.judgement";

/// On a dot other than those of the update: its kind, as it was decided before
/// casts and rematerialisation changed its operands.
inline constexpr llvm::StringLiteral kDotKindAttr = "scalify.dot_kind";
/// On a dot with a kind: the name of the argument that is its layer's weight,
/// if there is one.
inline constexpr llvm::StringLiteral kDotWeightAttr = "scalify.dot_weight";

/// Finds the kind of each dot, and the weight that identifies its layer.
class DotLayers {
public:
  DotLayers(mlir::FunctionOpInterface func, const DotRoles &roles);

  /// Returns the argument of the step that is the layer's weight; null if there
  /// is none or it is ambiguous.
  mlir::Value getWeight(mlir::Operation *dot) const {
    return weights.lookup(dot);
  }
  /// Returns std::nullopt for dots of the update.
  std::optional<DotKind> getKind(mlir::Operation *dot) const {
    return kinds.lookup(dot);
  }

private:
  LayerTable layers;
  llvm::DenseMap<mlir::Operation *, mlir::Value> weights;
  llvm::DenseMap<mlir::Operation *, std::optional<DotKind>> kinds;
};

} // namespace scalify

#endif // SCALIFY_PRECISION_DOTLAYERS_H
