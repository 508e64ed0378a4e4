//===- NoiseGains.h - What ops do to the errors of operands -----*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_NOISE_NOISEGAINS_H
#define SCALIFY_LIB_SCALING_NOISE_NOISEGAINS_H

#include "scalify/Scaling/ScaleAnalysis.h"

namespace scalify {

/// The variance of the error in an op's result for one of the operand's.
double getNoiseGain(mlir::OpOperand &operand, mlir::OpResult result,
                    const ScaleAnalysis &facts);

/// The probability that a comparison of two values turns out otherwise for an
/// error of variance 1 in their difference: it is E|error| times the density of
/// the difference at 0.
double getFlipRate(mlir::Operation *op, const ScaleAnalysis &facts);

/// Whether errors of the type's values are looked at: of numbers their
/// variance, of booleans the probability that they are wrong.
bool hasNoise(mlir::Type type);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_NOISE_NOISEGAINS_H
