//===- Caster.h - Cast each value once per format ---------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_CASTER_H
#define SCALIFY_LIB_PRECISION_CASTER_H

#include "CastNames.h"
#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"

#include <optional>

namespace scalify {

/// Removes the attributes of a scale from an op that moves narrow data.
void eraseScale(mlir::Operation *op);

/// A scale, and the rule that determined it.
struct ScaleHint {
  mlir::Value scale;
  mlir::StringAttr rule;
  /// The block size along each of the operand's dimensions, under a recipe with
  /// block scales; null for one scale.
  mlir::DenseI64ArrayAttr block = {};
  /// The stream of random words of a stochastic cast; null for one to nearest.
  mlir::IntegerAttr stream = {};
  /// True if the scale holds the value whatever sizes arguments take.
  bool isProved = false;
  /// True if others use the same scale: the next step, for state, or all ranks,
  /// for the terms of a sum. The cast uses it whatever the recipe's scales are.
  bool isPrescribed = false;
  /// The scale depends on priors.
  bool isByPrior = false;

  /// Distinguishes casts of a value to one format.
  mlir::Attribute getKind() const {
    return stream ? mlir::Attribute(stream) : mlir::Attribute(block);
  }
};

/// Casts a value to a format once, and replays the moves between the value and
/// its uses on the narrow data.
class Caster {
public:
  Caster(RecipeAttr recipe, mlir::Block &block, CastNames &names, bool strict,
         bool measures = false)
      : recipe(recipe), block(block), names(names), strict(strict),
        measures(measures && recipe.getScales() == ScaleSource::Propagated),
        builder(recipe.getContext()) {}

  /// Returns why the cast is left out; null if it is made (CastNames).
  DecisionAttr getReasonToStayWide(mlir::Value operand, mlir::Type format,
                                   ScaleHint hint = {}) {
    return names.getReasonToStayWide(operand, format, hint.block,
                                     hint.getKind());
  }
  /// Casts the operand's root to `format`, and returns `operand` dequantized
  /// from these data, for a reader in `user`.
  mlir::Value cast(mlir::Value operand, ScaleHint hint, mlir::Type format,
                   mlir::Block *user);
  /// Casts the operand of a dot by its hint.
  mlir::Value castOperand(ScaleHintOp hint, mlir::Type format,
                          mlir::DenseI64ArrayAttr block);
  /// Casts `value` itself by the hint's scale, whatever the recipe's scales
  /// are; returns the narrow data.
  mlir::Value castData(mlir::Value value, ScaleHint hint, mlir::Type format);
  /// Reports that a format of the recipe cannot be used: a remark, or under
  /// `strict` an error, after which `hasFailed` is true.
  void refuse(mlir::Operation *op, const llvm::Twine &what);
  bool hasFailed() const { return failed; }
  unsigned getNumCasts() const { return casts.size(); }
  /// Must be called after ops are erased whose results are keys of `moved`.
  void forgetMoves() { moved.clear(); }
  /// Builds a rank-0 f32 constant at the start of the function.
  mlir::Value makeConstant(float value);

private:
  /// Narrow data and its scale.
  struct Cast {
    mlir::Value data;
    mlir::Value scale;
  };
  Cast castRoot(mlir::Value root, ScaleHint hint, mlir::FloatType format);
  mlir::Value move(mlir::Value operand, mlir::Value root, mlir::Value data);
  void insertAfterScale(mlir::Value scale);
  /// Orders the casts of a block's arguments by their first readers, not by
  /// creation, so that their rows of state are the same for any mesh.
  void insertInReaderOrder(mlir::BlockArgument argument, mlir::Value scale);
  unsigned getReaderOrder(mlir::BlockArgument argument);
  mlir::Value makeScale(mlir::Value root, ScaleHint hint,
                        mlir::FloatType format);
  bool needsNoScale(ScaleHint hint, mlir::FloatType format) const;
  mlir::Value lowerGradientScale(mlir::Value root, mlir::Value scale,
                                 mlir::FloatType format);

  RecipeAttr recipe;
  mlir::Block &block;
  CastNames &names;
  bool strict, failed = false;
  /// True if casts that may outgrow the propagated scales measure theirs.
  bool measures;
  /// The arguments whose sizes change, computed on demand.
  std::optional<llvm::StringSet<>> moving;
  mlir::OpBuilder builder;
  /// A value in a format, and the kind of its cast.
  using Key = std::pair<std::pair<mlir::Value, mlir::Type>, mlir::Attribute>;
  llvm::DenseMap<Key, Cast> casts;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, mlir::Value> moved;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>,
                 llvm::SmallDenseMap<mlir::Block *, mlir::Value, 1>>
      wide;
  /// Roots in the order of their first readers.
  llvm::DenseMap<mlir::Value, unsigned> readers;
};

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_CASTER_H
