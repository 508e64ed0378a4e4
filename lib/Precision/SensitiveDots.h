//===- SensitiveDots.h - Dots whose rounding moves gradients ----*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_SENSITIVEDOTS_H
#define SCALIFY_LIB_PRECISION_SENSITIVEDOTS_H

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace scalify {

/// Dots on rounded operands.
struct RoundedDot {
  /// The mean square of the errors of both operands, each over that of its
  /// data.
  double noise;
  /// When it is left wide: a layer's dot of the forward first, others where
  /// these are not enough and the others are, those that the user names never.
  enum Turn { Never, First, Second } turn;
};

/// The dots to leave wide, and why, such that by NoiseAnalysis the gradients of
/// weights stay near those of F32; none where they do with all dots rounded.
llvm::MapVector<mlir::Operation *, std::string>
findSensitiveDots(mlir::FunctionOpInterface func,
                  const llvm::MapVector<mlir::Operation *, RoundedDot> &dots);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_SENSITIVEDOTS_H
