//===- Caster.h - Casts of values, once each --------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_CASTER_H
#define SCALIFY_LIB_PRECISION_CASTER_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace scalify {

/// A scale, and the rule that gave it.
struct ScaleHint {
  mlir::Value scale;
  mlir::StringAttr rule;
};

/// Casts a value to a format once, and replays the moves between the value and
/// its uses on the narrow data.
class Caster {
public:
  Caster(RecipeAttr recipe, mlir::Block &block)
      : recipe(recipe), block(block), builder(recipe.getContext()) {}

  /// `operand` made wide again from its root's data in `format`.
  mlir::Value cast(mlir::Value operand, ScaleHint hint, mlir::Type format);
  /// The operand of a dot by its hint.
  mlir::Value castOperand(SetScaleOp hint, mlir::Type format) {
    return cast(hint.getValue(), {hint.getScale(), hint.getRuleAttr()}, format);
  }
  unsigned getNumCasts() const { return numCasts; }
  /// Must follow the erasure of ops that the moves are known by.
  void forgetMoves() { moved.clear(); }
  /// A rank-0 f32 constant at the start of the function.
  mlir::Value makeConstant(float value);

private:
  /// Narrow data and its scale.
  struct Cast {
    mlir::Value data;
    mlir::Value scale;
  };
  Cast castRoot(mlir::Value root, ScaleHint hint, mlir::FloatType format);
  mlir::Value move(mlir::Value operand, mlir::Value root, mlir::Value data);
  mlir::Value makeScale(mlir::Value root, ScaleHint hint,
                        mlir::FloatType format);

  RecipeAttr recipe;
  mlir::Block &block;
  mlir::OpBuilder builder;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, Cast> casts;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, mlir::Value> moved;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, mlir::Value> wide;
  unsigned numCasts = 0;
};

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_CASTER_H
