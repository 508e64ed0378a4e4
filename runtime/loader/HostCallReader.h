// Reads the command `host_call`, a callback into the process that runs the
// step.
#ifndef SCALIFY_RUNTIME_LOADER_HOSTCALLREADER_H
#define SCALIFY_RUNTIME_LOADER_HOSTCALLREADER_H

#include "loader/JsonNode.h"
#include "loader/Program.h"

namespace scalify::rt {

void readHostCall(const JsonNode &node, const Interface &interface,
                  Command &command);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_HOSTCALLREADER_H
