//===- RankSums.h - What ranks sum, cast before it is sent ------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_RANKSUMS_H
#define SCALIFY_LIB_PRECISION_RANKSUMS_H

#include "Caster.h"

namespace scalify {

/// Whether an op sums what the ranks of a mesh have, one tensor.
bool isRankSum(mlir::Operation *op);
/// How many ranks add up to one sum.
int64_t countSummedRanks(mlir::Operation *sum);
/// Where what a rank brings to a sum is read, before it is filled up to equal
/// parts.
mlir::OpOperand *getRankPart(mlir::Operation *sum);

/// A scale on which ranks agree for what each has of `root`: as the recipe
/// finds scales; none where the rules gave none. With `playsRanks` the first
/// dimension is that of ranks.
std::optional<ScaleHint> makeSharedHint(RecipeAttr recipe, Caster &caster,
                                        mlir::Value root, mlir::Type format,
                                        const llvm::Twine &rule,
                                        bool playsRanks = false);

/// Casts `value` for its readers; returns the cast.
QuantizeOp castReads(Caster &caster, mlir::Value value,
                     llvm::ArrayRef<mlir::OpOperand *> reads, ScaleHint hint,
                     mlir::Type format);
/// Says of which gradient a cast is, and of which part.
void markGradient(QuantizeOp cast, int64_t index, llvm::StringRef part);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_RANKSUMS_H
