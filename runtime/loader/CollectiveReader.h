// The command that exchanges memory between ranks.
#ifndef SCALIFY_RUNTIME_LOADER_COLLECTIVEREADER_H
#define SCALIFY_RUNTIME_LOADER_COLLECTIVEREADER_H

#include "loader/JsonNode.h"
#include "loader/Program.h"

namespace scalify::rt {

/// Checks that sizes fit the groups and that every rank is in one of them.
void readCollective(const JsonNode &node, const Interface &interface,
                    const Program &program, Command &command);

/// Sets what depends on which rank it is. Groups are of the `stageRanks` ranks
/// of a pipeline's stage, all ranks where there are no stages, and who has the
/// same place in another stage is at the other end of a message.
void joinGroup(Command &command, int32_t rank, int32_t stageRanks);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_COLLECTIVEREADER_H
