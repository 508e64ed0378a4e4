//===- LogAddExp.h - Rules of logaddexp -------------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_RULES_LOGADDEXP_H
#define SCALIFY_LIB_SCALING_RULES_LOGADDEXP_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"

namespace scalify {

/// exp(-|a - b|).
bool matchLogAddExpTail(const FactsQuery &query, ScaleFacts &out);
/// exp(a - logaddexp(a, b)).
bool matchLogAddExpShare(const FactsQuery &query, ScaleFacts &out);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RULES_LOGADDEXP_H
