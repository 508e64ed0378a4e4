// Reads a loop, a command that runs another function of the program.
#ifndef SCALIFY_RUNTIME_LOADER_LOOPREADER_H
#define SCALIFY_RUNTIME_LOADER_LOOPREADER_H

#include "loader/JsonNode.h"
#include "loader/Program.h"

namespace scalify::rt {

void readLoop(const JsonNode &node, const Interface &interface,
              Command &command);

/// Finds the callees of all loops, once all functions are read, and checks that
/// they take the loops' buffers. `table` is the manifest's functions.
void resolveLoops(const JsonNode &table, Program &program);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_LOOPREADER_H
