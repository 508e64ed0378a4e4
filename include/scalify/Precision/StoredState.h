//===- StoredState.h - State that is stored narrow --------------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_STOREDSTATE_H
#define SCALIFY_PRECISION_STOREDSTATE_H

#include "scalify/Dialect/Scalify/Scalify.h"

namespace scalify {

/// On a cast: what it casts is written into state. The data itself ("value"),
/// or its root, of which the reader takes the square ("root").
inline constexpr llvm::StringLiteral kStateAttr = "scalify.state";
inline constexpr llvm::StringLiteral kStateValue = "value";
inline constexpr llvm::StringLiteral kStateRoot = "root";

/// On an argument of main that holds narrow data: `{exponent = k : i64, root =
/// false}`. Its true values are data * 2^k, or the squares of these. With
/// `scale_index = i : i64` the scale is one of run time: entry i of the
/// argument `scalify.state_scales`, and 2^k while that is 0.
inline constexpr llvm::StringLiteral kStoredAttr = "scalify.stored";
inline constexpr llvm::StringLiteral kStateScalesName = "scalify.state_scales";
/// The amaxes of what the last step wrote, in the same order; 0 for none.
inline constexpr llvm::StringLiteral kStateAmaxName = "scalify.state_amax";

/// Whether the cast's data become state: its scale is that of the argument.
inline bool isStateCast(QuantizeOp cast) { return cast->hasAttr(kStateAttr); }

/// The cast that made data which become state, through moves; null for others.
QuantizeOp findStateCast(mlir::Value data);

} // namespace scalify

#endif // SCALIFY_PRECISION_STOREDSTATE_H
