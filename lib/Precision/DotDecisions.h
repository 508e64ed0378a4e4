//===- DotDecisions.h - Decisions about a dot -------------------*- C++ -*-===//
//
// scalify-decide-formats writes these attributes, with `scalify.wide`,
// `scalify.judgement` and `scalify.accumulation`. scalify-quantize reads them,
// and removes all but the kind and the weight, which the report shows.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_PRECISION_DOTDECISIONS_H
#define SCALIFY_LIB_PRECISION_DOTDECISIONS_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Precision/DotLayers.h"

namespace scalify {

/// On a dot: its role in the model. Delayed scaling sets it before, to the role
/// in the step's plain form.
inline constexpr llvm::StringLiteral kDotRoleAttr = "scalify.dot_role";
/// On a dot: the formats and the block sizes of its operands.
inline constexpr llvm::StringLiteral kFormatsAttr = "scalify.formats";
/// On a loop's slice of a stack: dots read it from one cast of the stack.
inline constexpr llvm::StringLiteral kWholeStackAttr = "scalify.whole_stack";

inline bool isWeightGradient(mlir::Operation *dot) {
  auto kind = dot->getAttrOfType<DotKindAttr>(kDotKindAttr);
  return kind && kind.getValue() == DotKind::WeightGrad;
}

/// True if the recipe has narrow formats for the dot's role, and none wider
/// than those of linear layers: presets for FP8 have BF16 where FP8 costs
/// accuracy.
inline bool isOfNarrowRole(mlir::Operation *dot, RecipeAttr recipe) {
  auto role = dot->getAttrOfType<DotRoleAttr>(kDotRoleAttr);
  if (!role)
    return false;
  DotFormats formats = recipe.getFormats(role.getValue());
  return !formats.isWide() &&
         formats.getWidth() <= recipe.getFormats(DotRole::Linear).getWidth();
}

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_DOTDECISIONS_H
