// Reads a call of LAPACK and checks its shape, types and extents.
#ifndef SCALIFY_RUNTIME_LOADER_LAPACKREADER_H
#define SCALIFY_RUNTIME_LOADER_LAPACKREADER_H

#include "loader/JsonNode.h"
#include "loader/Program.h"

namespace scalify::rt {

void readLapack(const JsonNode &node, const Interface &interface,
                Command &command);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_LAPACKREADER_H
