// Reads which commands of a function run tile by tile.
#ifndef SCALIFY_RUNTIME_LOADER_TILEREADER_H
#define SCALIFY_RUNTIME_LOADER_TILEREADER_H

#include "loader/JsonNode.h"
#include "loader/Program.h"

namespace scalify::rt {

/// Sets the tiles of a function's commands, which `list` describes, and checks
/// that each tile of a thread's memory is read and written as one.
void readTiles(const JsonNode &list, const Program &program,
               Function &function);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_TILEREADER_H
