//===- AttentionParts.h - What an attention is made of ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_ATTENTIONPARTS_H
#define SCALIFY_LIB_FUSION_ATTENTIONPARTS_H

#include "AttentionPattern.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify::attention {

/// A value that is another one, permuted and times a number: dimension i is
/// dimension `order[i]` of the value that it is made of.
struct Scaled {
  mlir::Value value;
  llvm::SmallVector<int64_t> order;
  double factor = 1;
};

/// Goes from a value to the dot that it is a multiple of.
std::optional<std::pair<stablehlo::DotGeneralOp, Scaled>>
traceToDot(mlir::Value value);

struct ScaledUse {
  Scaled form;
  mlir::OpOperand *use;
};

/// What `value` is read as by ops that do more than scale, round and permute,
/// or set to zero what `isMask` masks.
llvm::SmallVector<ScaledUse>
traceUses(mlir::Value value,
          llvm::function_ref<bool(stablehlo::SelectOp)> isMask);

/// Past ops that leave the elements and their order as they are.
mlir::Value skipViews(mlir::Value value);

/// What `value` repeats along dimension `row`: one element for each row.
mlir::Value getRowValue(mlir::Value value, int64_t row);

/// The sum, or the largest, along dimension `row` that `value` repeats along
/// it.
stablehlo::ReduceOp matchRowSum(mlir::Value value, int64_t row);
stablehlo::ReduceOp matchRowMaximum(mlir::Value value, int64_t row);

/// The sum of `row` that `value` is the negative of.
stablehlo::ReduceOp matchNegatedSum(mlir::Value value, int64_t row);

/// The operand of a product that is not `factor`; none if neither is.
mlir::Value getOtherFactor(mlir::Value product, mlir::Value factor);

/// A predicate that is true where `row` >= `column`, dimensions of it; where
/// `isNegated`, false.
struct CausalMask {
  int64_t row, column;
  bool isNegated;
};
std::optional<CausalMask> matchCausalMask(mlir::Value predicate);

/// A dot of which both operands are matrices in memory, summed over channels;
/// `result` names the dimensions of its result.
bool matchChannelDot(stablehlo::DotGeneralOp dot, llvm::ArrayRef<Axis> result,
                     AttentionOperand &querySide, AttentionOperand &keySide);

/// A dot that sums weights (or their gradient), with dimensions `axes`, against
/// a matrix in memory.
std::optional<AttentionDot> matchMixDot(mlir::OpOperand &use,
                                        llvm::ArrayRef<Axis> axes);

} // namespace scalify::attention

#endif // SCALIFY_LIB_FUSION_ATTENTIONPARTS_H
