// Reads one command of a function and checks its indices and extents.
#ifndef SCALIFY_RUNTIME_LOADER_COMMANDREADER_H
#define SCALIFY_RUNTIME_LOADER_COMMANDREADER_H

#include "loader/JsonNode.h"
#include "loader/Program.h"

namespace scalify::rt {

/// `interface` already holds its buffers. `numCounters` are the program's.
Command readCommand(const JsonNode &node, const Interface &interface,
                    size_t numCounters);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_COMMANDREADER_H
