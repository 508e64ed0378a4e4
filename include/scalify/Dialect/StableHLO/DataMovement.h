//===- DataMovement.h - Ops that move elements ------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_DATAMOVEMENT_H
#define SCALIFY_DIALECT_STABLEHLO_DATAMOVEMENT_H

#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/BitmaskEnum.h"

namespace scalify {

LLVM_ENABLE_BITMASK_ENUMS_IN_NAMESPACE();

/// Kinds of movement, as bits of a mask.
enum class Move : unsigned {
  None = 0,
  Reshape = 1 << 0,
  Transpose = 1 << 1,
  Reverse = 1 << 2,
  /// Repeats along new dimensions, or along dimensions of one element.
  Broadcast = 1 << 3,
  /// Takes a part, whose start may be known only at run time.
  Slice = 1 << 4,
  /// Converts between element types of StableHLO.
  Convert = 1 << 5,
  Barrier = 1 << 6,
  /// Marks a value for, casts it to, or widens it from a recipe's narrow
  /// format.
  Cast = 1 << 7,
  /// A loop's argument that its body returns unchanged.
  Invariant = 1 << 8,
  /// An argument of a manual computation: one device's shard.
  Manual = 1 << 9,
  /// Keeps all elements, but not their order and format.
  Layout = Reshape | Transpose | Convert,
  LLVM_MARK_AS_BITMASK_ENUM(/*LargestValue=*/Manual)
};

/// The trait of `Moves` in DataMovement.td.
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

/// Returns the value whose elements `value` has after one of these moves; null
/// if no such move defines `value`.
mlir::Value getMoved(mlir::Value value, Move moves);

/// Skips all of these moves and returns the value before them.
mlir::Value lookThrough(mlir::Value value, Move moves);

} // namespace scalify

#endif // SCALIFY_DIALECT_STABLEHLO_DATAMOVEMENT_H
