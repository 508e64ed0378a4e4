// Elements of several ranks become one, always in the order of the parts.
#ifndef SCALIFY_RUNTIME_COMM_JOINPARTS_H
#define SCALIFY_RUNTIME_COMM_JOINPARTS_H

#include "comm/Communicator.h"

namespace scalify::rt {

/// Whether elements of that type can be joined so.
bool canJoin(Join join, DType type);

/// Throws Error where elements of that type cannot be joined so.
void requireJoin(Join join, DType type);

/// destination[i] = ((parts[0][i] . parts[1][i]) . parts[2][i]) . ...; it may
/// be the memory of one of the parts. Formats narrower than F32 are joined in
/// F32 and rounded once.
void joinParts(Join join, DType type, const std::vector<const void *> &parts,
               void *destination, int64_t elements);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_JOINPARTS_H
