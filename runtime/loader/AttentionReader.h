// Reads the command `attention` of a manifest.
#ifndef SCALIFY_RUNTIME_LOADER_ATTENTIONREADER_H
#define SCALIFY_RUNTIME_LOADER_ATTENTIONREADER_H

#include "loader/JsonNode.h"
#include "loader/Program.h"

namespace scalify::rt {

/// Throws an Error if the shape does not fit its buffers.
void readAttention(const JsonNode &node, const Interface &interface,
                   Command &command);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_ATTENTIONREADER_H
