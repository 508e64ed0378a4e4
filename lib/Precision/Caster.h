//===- Caster.h - Casts of values, once each --------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_CASTER_H
#define SCALIFY_LIB_PRECISION_CASTER_H

#include "WideCasts.h"
#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

#include <optional>

namespace scalify {

/// A scale, and the rule that gave it.
struct ScaleHint {
  mlir::Value scale;
  mlir::StringAttr rule;
  /// The size of the blocks by the operand's dimensions, under a recipe with
  /// scales of blocks; null for one scale.
  mlir::DenseI64ArrayAttr block = {};
  /// Of the random words, for a cast that rounds stochastically; null for one
  /// to nearest.
  mlir::IntegerAttr stream = {};
  /// It holds the value, whatever sizes arguments take.
  bool isProved = false;
  /// Others go by it, too: the next step, for state, or all ranks, for what
  /// they sum. A cast takes it as it is, whatever the recipe's scales are.
  bool isAgreed = false;
  /// Priors decided the scale.
  bool isByPrior = false;

  /// What tells apart casts of a value to one format.
  mlir::Attribute getKind() const {
    return stream ? mlir::Attribute(stream) : mlir::Attribute(block);
  }
};

/// Casts a value to a format once, and replays the moves between the value and
/// its uses on the narrow data.
class Caster {
public:
  Caster(RecipeAttr recipe, mlir::Block &block, WideCasts &wideCasts,
         bool strict, bool measures = false)
      : recipe(recipe), block(block), wideCasts(wideCasts), strict(strict),
        measures(measures && recipe.getScales() == ScaleSource::Propagated),
        builder(recipe.getContext()) {}

  /// Why the cast of the operand's root to `format` is left out; empty if it is
  /// made. It has its number either way, so that names of casts stay what they
  /// were in the run that found it.
  DecisionAttr getReasonToStayWide(mlir::Value operand, mlir::Type format,
                                   ScaleHint hint = {});

  /// `operand` made wide again from its root's data in `format`, for a reader
  /// in `user`.
  mlir::Value cast(mlir::Value operand, ScaleHint hint, mlir::Type format,
                   mlir::Block *user);
  /// The operand of a dot by its hint.
  mlir::Value castOperand(ScaleHintOp hint, mlir::Type format,
                          mlir::DenseI64ArrayAttr block);
  /// A cast of the value itself by this scale, whatever the recipe's are.
  mlir::Value castData(mlir::Value value, ScaleHint hint, mlir::Type format);
  /// Lets the slices that loops take of a stack, as of stacked weights, be
  /// slices of its narrow data, where more than one reads them.
  void findStacks(mlir::ArrayRef<ScaleHintOp> hints);
  /// Says that the recipe's format cannot be had, which is an error under
  /// `strict`, with which it fails, and else a remark.
  void refuse(mlir::Operation *op, const llvm::Twine &what);
  bool hasFailed() const { return failed; }
  unsigned getNumCasts() const { return casts.size(); }
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
  /// The value that is cast. Blocks are those of the operand's own dimensions,
  /// so that no moves can follow the cast.
  mlir::Value getRoot(mlir::Value operand, mlir::Attribute block = {});
  Cast castRoot(mlir::Value root, ScaleHint hint, mlir::FloatType format);
  /// The name of a cast, one for each root and format; `key` in place of the
  /// root tells a cast of its own apart.
  std::string getName(mlir::Value root, mlir::Type format, ScaleHint hint = {},
                      mlir::Value key = {});
  mlir::Value move(mlir::Value operand, mlir::Value root, mlir::Value data);
  void insertBehind(mlir::Value scale);
  /// Casts of a block's arguments follow each other as their first readers do,
  /// whatever the order in which they are made: so the rows of state that they
  /// have are the same for any mesh.
  void insertAmongArguments(mlir::BlockArgument argument, mlir::Value scale);
  unsigned getReaderOrder(mlir::BlockArgument argument);
  mlir::Value makeScale(mlir::Value root, ScaleHint hint,
                        mlir::FloatType format);
  bool needsNoScale(ScaleHint hint, mlir::FloatType format) const;
  mlir::Value leaveRoom(mlir::Value root, mlir::Value scale,
                        mlir::FloatType format);

  RecipeAttr recipe;
  mlir::Block &block;
  WideCasts &wideCasts;
  bool strict, failed = false;
  /// Casts that may outgrow the propagated scales measure theirs.
  bool measures;
  /// The arguments whose sizes change, once something asks.
  std::optional<llvm::StringSet<>> moving;
  mlir::OpBuilder builder;
  /// A value in a format, and the kind of its cast.
  using Key = std::pair<std::pair<mlir::Value, mlir::Type>, mlir::Attribute>;
  llvm::DenseMap<Key, Cast> casts;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, mlir::Value> moved;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>,
                 llvm::SmallDenseMap<mlir::Block *, mlir::Value, 1>>
      wide;
  /// Slices whose root is the stack.
  llvm::DenseSet<mlir::Operation *> stackSlices;
  llvm::DenseMap<Key, unsigned> numbers;
  /// Roots in the order of their first readers.
  llvm::DenseMap<mlir::Value, unsigned> readers;
};

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_CASTER_H
