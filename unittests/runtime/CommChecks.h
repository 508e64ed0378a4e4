// Compares collectives with a plain computation: every rank knows the inputs of
// all ranks, and computes its expected result element by element.
#ifndef SCALIFY_UNITTESTS_RUNTIME_COMMCHECKS_H
#define SCALIFY_UNITTESTS_RUNTIME_COMMCHECKS_H

#include "comm/Communicator.h"

namespace scalify::test {

/// All functions return an error text, or "". Covers every kind of collective
/// among groups of several shapes, in place and not, and the bytes sent.
std::string checkGroups(rt::Communicator &comm);

/// Covers the same, and every type and reduction.
std::string checkSmall(rt::Communicator &comm);

/// Covers arrays longer than the rings of `local`, and than the scratch memory
/// of received elements.
std::string checkLong(rt::Communicator &comm);

} // namespace scalify::test

#endif // SCALIFY_UNITTESTS_RUNTIME_COMMCHECKS_H
