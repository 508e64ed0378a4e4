//===- BoundedCarries.cpp - The share of its bound that a state fills -----===//
//
// tanh and logistic of small weights leave a recurrent state far below its
// bound. Gates open during training, and the state ends near its bound.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Priors.h"

#include <cmath>

using namespace scalify;

// E4M3 has six binades below 1 at full precision. A state that is predicted
// three binades above its start still has half of them.
static constexpr double kMaxRoom = 0x1p3;

const Prior scalify::kBoundedCarries = {
    "bounded-carries",
    "a recurrent state with a bound comes to fill a part of it", 0x1p-4,
    "half-way, in binades, from the 2^-8 of weights of 0.02 to the bound; at "
    "most three above the start, half of E4M3's below 1"};

void scalify::enlargeTowardsBound(ScaleFacts &state, double share) {
  if (!std::isfinite(state.bound) || !(state.rms > 0) || state.constant)
    return;
  double room = std::min(state.bound * share, state.rms * kMaxRoom);
  if (room <= state.rms)
    return;
  state.rms = room;
  state.rule += ", with room to its bound (prior)";
}
