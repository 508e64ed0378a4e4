//===- SensitiveDots.h - Dots whose rounding harms gradients ----*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_SENSITIVEDOTS_H
#define SCALIFY_LIB_PRECISION_SENSITIVEDOTS_H

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/MapVector.h"

namespace scalify {

/// A dot on rounded operands. Its noise is the sum over both operands of the
/// error's mean square over that of the data.
struct RoundedDot {
  double noise;
  /// In the recipe's formats for sensitive dots.
  double sensitiveNoise;
  /// The order of widening: forward dots of layers and attention first; others
  /// if these do not suffice and the others do; dots that the user names never.
  enum Turn { Never, First, Second } turn;
  /// The dot computes a weight's gradient: its error reaches nothing else.
  bool isWeightGradient = false;
};

struct SensitiveDot {
  std::string why;
  /// True if the recipe's formats for sensitive dots do not suffice.
  bool isWide;
};

struct NoiseOptions {
  /// Formats stay for all of training: they also hold for weights that grow.
  bool stays = false;
  /// log2 of the mean square of errors as measured over the predicted one.
  int64_t exponent = 0;
};

/// Returns the dots to widen, with reasons, so that by NoiseAnalysis the
/// gradients of weights stay near those of F32; none if they do with all dots
/// rounded. `scores` are the dots of the forward that compute scores of
/// attention.
llvm::MapVector<mlir::Operation *, SensitiveDot>
findSensitiveDots(mlir::FunctionOpInterface func,
                  const llvm::MapVector<mlir::Operation *, RoundedDot> &dots,
                  llvm::ArrayRef<mlir::Operation *> scores,
                  const NoiseOptions &options);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_SENSITIVEDOTS_H
