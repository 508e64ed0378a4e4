//===- DotLayers.h - Which layer a dot belongs to ---------------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_DOTLAYERS_H
#define SCALIFY_PRECISION_DOTLAYERS_H

#include "scalify/Dialect/Scalify/RecipeText.h"
#include "scalify/Precision/DotRoles.h"

namespace scalify {

/// On a dot in 16 bits that a model keeps from FP8: which, and its figures.
inline constexpr llvm::StringLiteral kJudgementAttr = "scalify.judgement";

/// What each dot computes of its layer, and by which weight the layer is known.
class DotLayers {
public:
  DotLayers(mlir::FunctionOpInterface func, const DotRoles &roles);

  /// The argument of the step that is the layer's weight; null if there is
  /// none, or none can be told.
  mlir::Value getWeight(mlir::Operation *dot) const {
    return weights.lookup(dot);
  }
  /// None for dots of the update.
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
