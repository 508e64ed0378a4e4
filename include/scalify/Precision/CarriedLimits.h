//===- CarriedLimits.h - When carried scales move, and where to -*- C++ -*-===//

#ifndef SCALIFY_PRECISION_CARRIEDLIMITS_H
#define SCALIFY_PRECISION_CARRIEDLIMITS_H

#include <cstdint>

namespace scalify {

/// The range in which a format holds an amax: from `low` times its smallest
/// normal number to `high` times its largest value. A move leaves `room`
/// binades above the amax.
struct CarriedWindow {
  float low, high;
  int room;
};

/// The window of E4M3. Values that grow slowly move their scale before they
/// clip, and values that double in a step do not clip. For normally distributed
/// values, whose amax is some 4.5 deviations, E4M3's subnormal numbers add a
/// sixth to the rounding noise at `low`, and more than half at half of `low`.
inline constexpr CarriedWindow kNarrowWindow = {0x1p4f, 0.25f, 2};

/// Formats with five exponent bits are equally precise in some 30 binades.
/// These windows keep an amax near that of data of the predicted size: 1 in the
/// forward, 2^3 for gradients, which may also jump further between two steps.
inline constexpr CarriedWindow kForwardWindow = {0x1p14f, 0x1p-11f, 12};
inline constexpr CarriedWindow kGradientWindow = {0x1p14f, 0x1p-6f, 8};

/// A fraction of the format's largest value: flushed values move a scale down
/// only if no value is in the top four binades.
inline constexpr float kCarriedTop = 0x1p-4f;

/// The weights of flushed and of kept elements: one in 64 nonzero elements may
/// be flushed.
inline constexpr int32_t kFlushedWeight = 63, kKeptWeight = -1;

} // namespace scalify

#endif // SCALIFY_PRECISION_CARRIEDLIMITS_H
