#include "loader/HostCallReader.h"
#include "loader/CommandReader.h"

using namespace scalify::rt;

namespace {
int32_t readBuffers(const JsonNode &list, bool areWritten,
                    const Interface &interface, Command &command) {
  for (size_t i = 0; i < list.size(); ++i) {
    int32_t index = bufferIndex(list.at(i), interface);
    if (areWritten)
      requireWritable(list.at(i), index, interface);
    command.buffers.push_back(index);
    addBytes(command, interface.buffers[index]);
  }
  return static_cast<int32_t>(list.size());
}

/// Reads an optional buffer of one element, besides those read and written.
int32_t readOne(const JsonNode &node, const char *key, DType dtype,
                const Interface &interface, Command &command) {
  if (!node.has(key))
    return -1;
  int32_t index = bufferIndex(node[key], interface);
  const TensorType &type = interface.buffers[index].type;
  if (type.elements != 1 || type.dtype != dtype)
    node[key].fail("is of type " + toString(type) + ", not one " + name(dtype));
  command.buffers.push_back(index);
  return static_cast<int32_t>(command.buffers.size()) - 1;
}
} // namespace

void scalify::rt::readHostCall(const JsonNode &node, const Interface &interface,
                               Command &command) {
  command.numReads = readBuffers(node["reads"], false, interface, command);
  command.numWrites = readBuffers(node["writes"], true, interface, command);
  command.when = readOne(node, "when", DType::I1, interface, command);
  command.done = readOne(node, "done", DType::I32, interface, command);
  if (command.done >= 0)
    requireWritable(node["done"], command.buffers[command.done], interface);
  if (node.has("callback") == node.has("program"))
    node.fail("must have either a 'callback' or a 'program'");
}
