//===- TanhGradients.h - Facts of the gradient of tanh ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_RULES_TANHGRADIENTS_H
#define SCALIFY_LIB_SCALING_RULES_TANHGRADIENTS_H

#include "scalify/Scaling/Rules.h"

namespace scalify {

/// The gradient of a tanh, g (1 - t^2), of which g may be a multiple of powers
/// of what the tanh is of, as in the gradient of a GELU.
bool matchTanhGradient(const FactsQuery &query, ScaleFacts &out);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RULES_TANHGRADIENTS_H
