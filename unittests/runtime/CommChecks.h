// Collectives against a plain computation: every rank knows what all ranks
// start from, and computes by itself what it must get, element by element.
#ifndef SCALIFY_UNITTESTS_RUNTIME_COMMCHECKS_H
#define SCALIFY_UNITTESTS_RUNTIME_COMMCHECKS_H

#include "comm/Communicator.h"

namespace scalify::test {

/// All return what is wrong, or "". Every kind among groups of several shapes,
/// in place and not, and the bytes that are sent.
std::string checkGroups(rt::Communicator &comm);

/// The same, and every type and join.
std::string checkSmall(rt::Communicator &comm);

/// Longer than the rings of `local`, and than the memory for what waits to be
/// joined.
std::string checkLong(rt::Communicator &comm);

} // namespace scalify::test

#endif // SCALIFY_UNITTESTS_RUNTIME_COMMCHECKS_H
