//===- StoredState.h - State that is stored narrow --------------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_STOREDSTATE_H
#define SCALIFY_PRECISION_STOREDSTATE_H

#include "scalify/Dialect/Scalify/Scalify.h"

namespace scalify {

/// On a cast whose data are written into state. It casts the value itself
/// ("value"), or its square root, which the reader squares ("root").
inline constexpr llvm::StringLiteral kStateAttr = "scalify.state";
inline constexpr llvm::StringLiteral kStateValue = "value";
inline constexpr llvm::StringLiteral kStateRoot = "root";

/// On an argument of main that holds narrow data: `{exponent = k : i64, root =
/// false}`. Its true values are data * 2^k, or their squares if `root = true`.
/// With `scale_index = i : i64` the scale is a run-time value: entry i of the
/// argument `scalify.state_scales`, or 2^k while that entry is 0.
inline constexpr llvm::StringLiteral kStoredAttr = "scalify.stored";
inline constexpr llvm::StringLiteral kStateScalesName = "scalify.state_scales";
/// The amaxes of the state that the last step wrote, in the same order; 0 if
/// there are none.
inline constexpr llvm::StringLiteral kStateAmaxName = "scalify.state_amax";

/// True if the cast's data become state, so that its scale is the argument's.
inline bool isStateCast(QuantizeOp cast) { return cast->hasAttr(kStateAttr); }

/// Returns the cast that produced `data`, looking through moves, if they become
/// state; else null.
QuantizeOp findStateCast(mlir::Value data);

} // namespace scalify

#endif // SCALIFY_PRECISION_STOREDSTATE_H
