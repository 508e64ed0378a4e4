// Reads the command `collective`, an exchange between ranks.
#ifndef SCALIFY_RUNTIME_LOADER_COLLECTIVEREADER_H
#define SCALIFY_RUNTIME_LOADER_COLLECTIVEREADER_H

#include "loader/JsonNode.h"
#include "loader/Program.h"

namespace scalify::rt {

/// Checks that sizes fit the groups and that every rank is in one of them.
void readCollective(const JsonNode &node, const Interface &interface,
                    const Program &program, Command &command);

/// Sets the fields that depend on the rank. Groups consist of the `stageRanks`
/// ranks of a pipeline's stage, or of all ranks without stages. A message's
/// peer is the rank of the same place in another stage.
void joinGroup(Command &command, int32_t rank, int32_t stageRanks);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_COLLECTIVEREADER_H
