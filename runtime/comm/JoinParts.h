// Reduces elements of several ranks, always in the order of the parts.
#ifndef SCALIFY_RUNTIME_COMM_JOINPARTS_H
#define SCALIFY_RUNTIME_COMM_JOINPARTS_H

#include "comm/Communicator.h"

namespace scalify::rt {

/// True if elements of this type support the reduction.
bool canReduce(Join join, DType type);

/// Throws an Error if elements of this type do not support the reduction.
void requireReduction(Join join, DType type);

/// Computes destination[i] = ((parts[0][i] . parts[1][i]) . parts[2][i]) . ...;
/// `destination` may be one of the parts. Formats narrower than F32 are reduced
/// in F32 and rounded once.
void joinParts(Join join, DType type, const std::vector<const void *> &parts,
               void *destination, int64_t elements);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_JOINPARTS_H
