// Reads one command of a function and checks its indices and extents.
#ifndef SCALIFY_RUNTIME_LOADER_COMMANDREADER_H
#define SCALIFY_RUNTIME_LOADER_COMMANDREADER_H

#include "loader/JsonNode.h"
#include "loader/Program.h"

namespace scalify::rt {

/// The alignment of buffers of more than one element, in bytes.
constexpr int64_t bufferAlignment = 64;

/// Returns the index of the interface's buffer that the node names.
int32_t bufferIndex(const JsonNode &node, const Interface &interface);
/// Fails if the buffer is a constant or the rank's number.
void requireWritable(const JsonNode &node, int32_t index,
                     const Interface &interface);

/// Adds a buffer's bytes to those that the command moves. A sum beyond 64 bits
/// stays at their largest number: it only weighs tasks and profiles.
void addBytes(Command &command, const Buffer &buffer);

/// Requires the buffers of `interface`, and the target and counters of
/// `program`. Event numbers are below `numCommands` of the function.
Command readCommand(const JsonNode &node, const Interface &interface,
                    const Program &program, size_t numCommands);

/// Checks that a product writes each element once: tasks write at the same
/// time, and a batch may not be longer than its result.
void checkWrittenOnce(const JsonNode &node, const GemmShape &gemm);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_COMMANDREADER_H
