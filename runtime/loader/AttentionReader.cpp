#include "loader/AttentionReader.h"
#include "loader/CommandReader.h"

using namespace scalify::rt;

namespace {
/// Bounds extents and strides, so that their products cannot overflow.
constexpr int64_t maxWindowElements = int64_t(1) << 40;

void readBuffers(const JsonNode &node, const Interface &interface,
                 Command &command) {
  const AttentionShape &shape = command.attention;
  for (const char *key : {"reads", "writes"}) {
    JsonNode list = node[key];
    bool isWritten = *key == 'w';
    size_t wanted = isWritten ? shape.buffers() - shape.reads() : shape.reads();
    if (list.size() != wanted)
      list.fail("must name " + std::to_string(wanted) + " buffers");
    for (size_t i = 0; i < wanted; ++i) {
      int32_t index = bufferIndex(list.at(i), interface);
      if (isWritten)
        requireWritable(list.at(i), index, interface);
      command.buffers.push_back(index);
      addBytes(command, interface.buffers[index]);
    }
  }
}

void readSizes(const JsonNode &node, AttentionShape &shape) {
  int64_t *sizes[] = {&shape.batch,   &shape.heads, &shape.keyHeads,
                      &shape.queries, &shape.keys,  &shape.channels};
  JsonNode list = node["sizes"];
  if (list.size() != std::size(sizes))
    list.fail("must hold batch, heads, key heads, queries, keys and channels");
  for (size_t i = 0; i < list.size(); ++i) {
    *sizes[i] = list.at(i).atLeast(1);
    if (*sizes[i] > INT32_MAX)
      list.at(i).fail("does not fit the library's 32 bits");
  }
  if (shape.heads % shape.keyHeads)
    list.fail("has heads that are no multiple of the key heads");
}

/// Returns the last element of a window, or -1 on overflow.
int64_t lastElement(const AttentionWindow &window, const AttentionShape &shape,
                    size_t buffer) {
  int64_t last = window.offset + shape.channels - 1;
  const int64_t steps[][2] = {{window.batch, shape.batch},
                              {window.head, shape.headsOf(buffer)},
                              {window.row, shape.rowsOf(buffer)}};
  for (auto [step, extent] : steps) {
    int64_t far = 0;
    if (__builtin_mul_overflow(step, extent - 1, &far) ||
        far > maxWindowElements)
      return -1;
    last += far;
  }
  return last;
}

void readWindows(const JsonNode &node, const Interface &interface,
                 Command &command) {
  AttentionShape &shape = command.attention;
  JsonNode list = node["windows"];
  if (list.size() != 4 * (shape.buffers() - 1))
    list.fail("must hold an offset and three strides for each matrix");
  for (size_t matrix = 0; matrix + 1 < shape.buffers(); ++matrix) {
    AttentionWindow window;
    int64_t *fields[] = {&window.offset, &window.batch, &window.head,
                         &window.row};
    for (size_t i = 0; i < 4; ++i) {
      JsonNode field = list.at(4 * matrix + i);
      *fields[i] = field.atLeast(0);
      if (*fields[i] > maxWindowElements)
        field.fail("reaches past any buffer");
    }
    size_t buffer = shape.bufferOf(matrix);
    const TensorType &type = interface.buffers[command.buffers[buffer]].type;
    int64_t last = lastElement(window, shape, buffer);
    if (last < 0 || last >= type.elements)
      list.at(4 * matrix)
          .fail("reaches past the end of its buffer of type " + toString(type));
    if (type.dtype != shape.type)
      list.at(4 * matrix)
          .fail("is of a buffer of type " + toString(type) + ", not " +
                name(shape.type));
    shape.windows.push_back(window);
  }
}

void checkStatistics(const JsonNode &node, const Interface &interface,
                     const Command &command) {
  const AttentionShape &shape = command.attention;
  const TensorType &type =
      interface.buffers[command.buffers[shape.statistics()]].type;
  if (type.dtype != DType::F32 ||
      type.elements / shape.batch / shape.heads < shape.queries)
    node.fail("has statistics of type " + toString(type) +
              ", not an f32 for each row");
}
} // namespace

void scalify::rt::readAttention(const JsonNode &node,
                                const Interface &interface, Command &command) {
  AttentionShape &shape = command.attention;
  shape.isCausal = node["causal"].boolean();
  shape.isGradient = node["gradient"].boolean();
  shape.scale = float(node["scale"].number());
  readSizes(node, shape);
  readBuffers(node, interface, command);
  shape.type = interface.buffers[command.buffers[0]].type.dtype;
  readWindows(node, interface, command);
  checkStatistics(node, interface, command);
}
