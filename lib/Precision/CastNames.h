//===- CastNames.h - The value and the name of each cast --------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_CASTNAMES_H
#define SCALIFY_LIB_PRECISION_CASTNAMES_H

#include "WideCasts.h"
#include "scalify/Dialect/Scalify/Scalify.h"

#include "llvm/ADT/DenseMap.h"

namespace scalify {

/// Returns the value to cast for an operand of a dot. Blocks refer to the
/// operand's own dimensions, so that no moves can follow a block-scaled cast.
mlir::Value getCastRoot(mlir::Value operand, mlir::Attribute block = {});

/// Lets loops slice the narrow data of a stack, as of stacked weights, if dots
/// read several of its slices, or one in a nested loop: marks these slices.
void markWholeStacks(mlir::ArrayRef<mlir::Operation *> dots);

/// Numbers the casts of a function in the order in which they are named, which
/// must be the same in every run: `scalify.wide_casts` refers to casts by name.
class CastNames {
public:
  explicit CastNames(WideCasts &wideCasts) : wideCasts(wideCasts) {}

  /// Returns the name of a cast, one for each root, format and `kind`: a stream
  /// of random words, or block sizes. `key` replaces the root for a cast that
  /// belongs to one body.
  std::string getName(mlir::Value root, mlir::Type format,
                      mlir::Attribute kind = {}, mlir::Value key = {});
  /// Returns why the cast of the operand's root to `format` is left out; null
  /// if it is made. Numbers the cast either way, so that casts keep the names
  /// that they had in the run that found it.
  DecisionAttr getReasonToStayWide(mlir::Value operand, mlir::Type format,
                                   mlir::DenseI64ArrayAttr block,
                                   mlir::Attribute kind);

private:
  /// A value in a format, and the kind of its cast.
  using Key = std::pair<std::pair<mlir::Value, mlir::Type>, mlir::Attribute>;

  WideCasts &wideCasts;
  llvm::DenseMap<Key, unsigned> numbers;
};

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_CASTNAMES_H
