// The command that exchanges memory between ranks.
#ifndef SCALIFY_RUNTIME_LOADER_COLLECTIVEREADER_H
#define SCALIFY_RUNTIME_LOADER_COLLECTIVEREADER_H

#include "loader/JsonNode.h"
#include "loader/Program.h"

namespace scalify::rt {

/// Checks that sizes fit the groups and that every rank is in one of them.
void readCollective(const JsonNode &node, const Interface &interface,
                    const Program &program, Command &command);

/// Sets what depends on which rank it is.
void joinGroup(Command &command, int32_t rank);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_COLLECTIVEREADER_H
