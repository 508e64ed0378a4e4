//===- DataMovement.h - Ops whose elements are an operand's -----*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_DATAMOVEMENT_H
#define SCALIFY_DIALECT_STABLEHLO_DATAMOVEMENT_H

#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/BitmaskEnum.h"

namespace scalify {

LLVM_ENABLE_BITMASK_ENUMS_IN_NAMESPACE();

/// What an op does to elements. Several make a mask.
enum class Move : unsigned {
  None = 0,
  Reshape = 1 << 0,
  Transpose = 1 << 1,
  Reverse = 1 << 2,
  /// Repeats along new dimensions or such of one element.
  Broadcast = 1 << 3,
  /// Takes a part, whose start may be known at run time alone.
  Slice = 1 << 4,
  /// Converts between element types of the language.
  Convert = 1 << 5,
  Barrier = 1 << 6,
  /// Marks, casts to or widens a narrow format of a recipe.
  Cast = 1 << 7,
  /// A loop's argument that its body returns as it came.
  Invariant = 1 << 8,
  /// An argument of a manual computation: one device's part.
  Manual = 1 << 9,
  /// What keeps all elements but their order and format.
  Layout = Reshape | Transpose | Convert,
  LLVM_MARK_AS_BITMASK_ENUM(/*LargestValue=*/Manual)
};

/// The trait behind `Moves` in DataMovement.td.
template <Move move> struct Moves {
  template <typename ConcreteOp>
  class Impl : public mlir::OpTrait::TraitBase<ConcreteOp, Impl> {
  public:
    static Move getMove() { return move; }
  };
};

} // namespace scalify

#include "scalify/Dialect/StableHLO/DataMovement.h.inc"

namespace scalify {

/// The value that `value` has the elements of, by one of these moves; null if
/// none of them makes it.
mlir::Value getMoved(mlir::Value value, Move moves);

/// The value behind all of these moves.
mlir::Value lookThrough(mlir::Value value, Move moves);

} // namespace scalify

#endif // SCALIFY_DIALECT_STABLEHLO_DATAMOVEMENT_H
