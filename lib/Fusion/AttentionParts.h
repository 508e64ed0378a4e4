//===- AttentionParts.h - Subpatterns of an attention -----------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_ATTENTIONPARTS_H
#define SCALIFY_LIB_FUSION_ATTENTIONPARTS_H

#include "AttentionPattern.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify::attention {

/// A value that equals a source value permuted and times `factor`: its
/// dimension i is the source's dimension `order[i]`.
struct Scaled {
  mlir::Value value;
  llvm::SmallVector<int64_t> order;
  double factor = 1;
};

/// Returns the dot of which `value` is a permuted multiple, if any.
std::optional<std::pair<stablehlo::DotGeneralOp, Scaled>>
traceToDot(mlir::Value value);

struct ScaledUse {
  Scaled form;
  mlir::OpOperand *use;
};

/// Returns the uses of `value` by ops that do more than scale, round, permute,
/// or apply a mask for which `isMask` holds; looks through these.
llvm::SmallVector<ScaledUse>
traceUses(mlir::Value value,
          llvm::function_ref<bool(stablehlo::SelectOp)> isMask);

/// Looks through ops that keep the elements and their order.
mlir::Value skipViews(mlir::Value value);

/// Returns the value, one element per row, that `value` broadcasts along
/// dimension `row`; null if it is no such broadcast.
mlir::Value getRowValue(mlir::Value value, int64_t row);

/// If `value` is the sum along dimension `row`, broadcast along it again,
/// returns the sum.
stablehlo::ReduceOp matchRowSum(mlir::Value value, int64_t row);

/// If `value` is a negated sum along dimension `row`, returns the sum.
stablehlo::ReduceOp matchNegatedSum(mlir::Value value, int64_t row);

/// Returns the other operand of a product with `factor`; null if neither
/// operand is `factor`.
mlir::Value getOtherFactor(mlir::Value product, mlir::Value factor);

/// A predicate that is true where the index along dimension `row` is at least
/// that along `column`; false there if `isNegated`.
struct CausalMask {
  int64_t row, column;
  bool isNegated;
};
std::optional<CausalMask> matchCausalMask(mlir::Value predicate);

/// Matches a dot that contracts the channels of two matrices in memory;
/// `result` names the dimensions of its result.
bool matchChannelDot(stablehlo::DotGeneralOp dot, llvm::ArrayRef<Axis> result,
                     AttentionOperand &querySide, AttentionOperand &keySide);

/// Matches a dot of the weights (or their gradient), with dimensions `axes`,
/// and a matrix in memory.
std::optional<AttentionDot> matchMixDot(mlir::OpOperand &use,
                                        llvm::ArrayRef<Axis> axes);

} // namespace scalify::attention

#endif // SCALIFY_LIB_FUSION_ATTENTIONPARTS_H
