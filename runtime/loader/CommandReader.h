// Reads one command of a function and checks its indices and extents.
#ifndef SCALIFY_RUNTIME_LOADER_COMMANDREADER_H
#define SCALIFY_RUNTIME_LOADER_COMMANDREADER_H

#include "loader/JsonNode.h"
#include "loader/Program.h"

namespace scalify::rt {

/// Which of the interface's buffers the node names.
int32_t bufferIndex(const JsonNode &node, const Interface &interface);
/// Fails where that is a constant or the rank's number.
void requireWritable(const JsonNode &node, int32_t index,
                     const Interface &interface);

/// `interface` already holds its buffers, `program` its target and counters;
/// there are no more events than `numCommands` of the function.
Command readCommand(const JsonNode &node, const Interface &interface,
                    const Program &program, size_t numCommands);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_COMMANDREADER_H
