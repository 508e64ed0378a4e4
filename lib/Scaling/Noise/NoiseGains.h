//===- NoiseGains.h - Gains of ops for errors -------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_NOISE_NOISEGAINS_H
#define SCALIFY_LIB_SCALING_NOISE_NOISEGAINS_H

#include "scalify/Scaling/ScaleAnalysis.h"

namespace scalify {

/// Returns the error variance of an op's result per error variance of the
/// operand.
double getNoiseGain(mlir::OpOperand &operand, mlir::OpResult result,
                    const ScaleAnalysis &facts);

/// Returns the probability that a comparison of two values flips, for an error
/// of variance 1 in their difference: E|error| times the density of the
/// difference at 0.
double getFlipRate(mlir::Operation *op, const ScaleAnalysis &facts);

/// True if the analysis tracks errors of the type: of numbers their variance,
/// of booleans and indices the probability that they are wrong.
bool hasNoise(mlir::Type type);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_NOISE_NOISEGAINS_H
