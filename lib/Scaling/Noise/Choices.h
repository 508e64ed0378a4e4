//===- Choices.h - Indices that values choose -------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_NOISE_CHOICES_H
#define SCALIFY_LIB_SCALING_NOISE_CHOICES_H

#include "scalify/Scaling/ScaleAnalysis.h"

namespace scalify {

/// The index of the largest or smallest of a row of values.
struct Choice {
  mlir::OpResult index;
  /// The terms in which the compared values of a row differ.
  llvm::SmallVector<mlir::Value> terms;
  /// The probability that an error of variance 1 in the values changes the
  /// index: E[max(d, 0)], for d the difference of two errors, times the density
  /// at 0 of the distance between the largest two.
  double flipRate;
};

/// Matches an argmax or argmin.
std::optional<Choice> matchChoice(mlir::Operation *op,
                                  const ScaleAnalysis &facts);

/// True if the type is one of indices, for which the analysis tracks the
/// probability that they are wrong.
bool isIndex(mlir::Type type);

/// Returns the error of a result for a wrong index, per probability.
double getIndexGain(mlir::OpOperand &operand, mlir::OpResult result,
                    const ScaleAnalysis &facts);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_NOISE_CHOICES_H
