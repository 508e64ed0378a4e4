// Reads one command of a function and checks its indices and extents.
#ifndef SCALIFY_RUNTIME_LOADER_COMMANDREADER_H
#define SCALIFY_RUNTIME_LOADER_COMMANDREADER_H

#include "loader/JsonNode.h"
#include "loader/Program.h"

namespace scalify::rt {

/// `program` already holds buffers, constants and counters.
Command readCommand(const JsonNode &node, const Program &program);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_COMMANDREADER_H
