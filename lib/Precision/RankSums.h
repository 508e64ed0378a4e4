//===- RankSums.h - Cast the terms of sums over ranks -----------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_RANKSUMS_H
#define SCALIFY_LIB_PRECISION_RANKSUMS_H

#include "Caster.h"

namespace scalify {

/// True if the op sums one tensor over ranks of a mesh.
bool isRankSum(mlir::Operation *op);
/// Returns the number of ranks in one sum.
int64_t countSummedRanks(mlir::Operation *sum);
/// Returns the use that reads a rank's term of a sum, before any padding to
/// equal parts.
mlir::OpOperand *getRankTerm(mlir::Operation *sum);

/// Returns a scale for `root` that all ranks share, from the recipe's source of
/// scales; none if the rules determined none. With `simulatesRanks` the first
/// dimension is that of ranks.
std::optional<ScaleHint> makeSharedHint(RecipeAttr recipe, Caster &caster,
                                        mlir::Value root, mlir::Type format,
                                        const llvm::Twine &rule,
                                        bool simulatesRanks = false);

/// Casts `value` for the given readers, and returns the cast.
QuantizeOp castForReaders(Caster &caster, mlir::Value value,
                          llvm::ArrayRef<mlir::OpOperand *> reads,
                          ScaleHint hint, mlir::Type format);
/// Marks a cast with the number of its gradient and the part that it casts.
void markGradient(QuantizeOp cast, int64_t index, llvm::StringRef part);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_RANKSUMS_H
