//===- GradientLimits.h - Errors that gradients may have --------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_GRADIENTLIMITS_H
#define SCALIFY_PRECISION_GRADIENTLIMITS_H

namespace scalify {

/// Limits on the mean square of errors over that of gradients, for the worst
/// tensor and for all. An error x is a cosine of 1 - x / 2: these are 0.96 and
/// 0.98, the second the bar of docs/research/numerics.md, the first above its
/// 0.95.
inline constexpr double kMaxWorstError = 0.08, kMaxTotalError = 0.04;

/// Dots are widened until errors are within a share of the limits, to 16 bits
/// as soon as they exceed half of these. Where the noise analysis fits a
/// program, it errs by up to a factor of two for most gradients, and of seven
/// for those of queries and keys of sharp attention, whose scores are larger
/// than those of independent queries and keys. 16 bits are cheap enough to
/// leave room for these, F32 is not (docs/research/noise-model.md).
inline constexpr double kRoom = 0.5, kNarrowRoom = 0.125;

} // namespace scalify

#endif // SCALIFY_PRECISION_GRADIENTLIMITS_H
