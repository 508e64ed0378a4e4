//===- TanhGradients.h - Facts of the gradient of tanh ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_RULES_TANHGRADIENTS_H
#define SCALIFY_LIB_SCALING_RULES_TANHGRADIENTS_H

#include "scalify/Scaling/Rules.h"

namespace scalify {

/// The gradient of a tanh, g (1 - t^2). A factor of g may be a power of the
/// tanh's argument, as in the gradient of a GELU.
bool matchTanhGradient(const FactsQuery &query, ScaleFacts &out);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RULES_TANHGRADIENTS_H
