#include "loader/TileReader.h"
#include "loader/CommandReader.h"

#include <set>

using namespace scalify::rt;

namespace {
/// Each tile has counters of its own: far above what programs have, and far
/// below what memory holds.
constexpr int64_t mostTiles = int64_t(1) << 24;

/// Cuts the first batch dimensions, which have `tiles` indices together, off a
/// product.
TiledGemm cut(const JsonNode &node, const GemmShape &shape, int64_t tiles) {
  TiledGemm result;
  result.shape = shape;
  int64_t indices = 1;
  for (size_t i = 0; i < shape.batch.size(); ++i) {
    if (__builtin_mul_overflow(indices, shape.batch[i].n, &indices))
      break;
    if (indices != tiles)
      continue;
    auto end = shape.batch.begin() + std::ptrdiff_t(i) + 1;
    result.tiled.assign(shape.batch.begin(), end);
    result.shape.batch.assign(end, shape.batch.end());
    planGemm(result.shape, result.plan, Tiles::One);
    return result;
  }
  node.fail("has no first batch dimensions of " + std::to_string(tiles) +
            " indices");
}

/// Checks that tile i of an operand is the i-th of equal parts of `part`
/// elements.
void checkParts(const JsonNode &node, const TiledGemm &gemm, int operand,
                int64_t part) {
  int64_t stride = part, last = 0;
  bool fits = gemm.shape.lastElement(operand, last) && last < part;
  for (size_t i = gemm.tiled.size(); i-- > 0;) {
    const BatchDim &dim = gemm.tiled[i];
    int64_t step = operand == 0 ? dim.a : operand == 1 ? dim.b : dim.c;
    fits = fits && (dim.n == 1 || step == stride) &&
           !__builtin_mul_overflow(stride, dim.n, &stride);
  }
  if (!fits)
    node.fail("does not touch one tile of operand " + std::to_string(operand));
}

void readTiled(const JsonNode &node, const Interface &interface,
               Command &command) {
  if (command.op == Command::Op::Kernel) {
    if (command.rows % command.tiles)
      node.fail("has " + std::to_string(command.rows) + " rows, which " +
                std::to_string(command.tiles) + " tiles cannot share");
  } else if (command.op == Command::Op::Gemm) {
    command.tiledGemm = cut(node, command.gemm, command.tiles);
  } else {
    node.fail("cannot run in tiles");
  }
  for (size_t i = 0; i < command.buffers.size(); ++i) {
    const Buffer &buffer = interface.buffers[size_t(command.buffers[i])];
    bool isOwn = buffer.kind == Buffer::Kind::Tile;
    if (isOwn && buffer.tiles != command.tiles)
      node.fail("has " + std::to_string(command.tiles) + " tiles, and buffer " +
                std::to_string(command.buffers[i]) + " is one of " +
                std::to_string(buffer.tiles));
    command.tileStrides.push_back(isOwn ? buffer.type.bytes / buffer.tiles : 0);
    if (!isOwn || command.op != Command::Op::Gemm)
      continue;
    if (command.gemmOffsets[i] != 0)
      node.fail("has an offset in memory of one tile");
    checkParts(node, command.tiledGemm, int(i),
               buffer.type.elements / buffer.tiles);
  }
  if (command.op == Command::Op::Gemm)
    checkWrittenOnce(node, command.gemm);
}

void checkWithout(const JsonNode &node, const Interface &interface,
                  const Command &command) {
  for (int32_t index : command.buffers)
    if (interface.buffers[size_t(index)].kind == Buffer::Kind::Tile)
      node.fail("runs in no tiles, and buffer " + std::to_string(index) +
                " is memory of one tile");
}
} // namespace

void scalify::rt::readTiles(const JsonNode &list, const Program &program,
                            Function &function) {
  const Interface &interface = program.interfaceOf(function);
  std::set<int64_t> ended;
  Command *before = nullptr, *first = nullptr;
  for (size_t i = 0; i < function.commands.size(); ++i) {
    Command &command = function.commands[i];
    JsonNode node = list.at(i);
    if (!node.has("tiles")) {
      checkWithout(node, interface, command);
      before = nullptr;
      continue;
    }
    JsonNode tiles = node["tiles"];
    if (program.isGpu() || command.stream != 0 || tiles.size() != 2)
      tiles.fail("must be a number and a group, of a CPU's first stream");
    command.tiles = tiles.at(0).atLeast(1);
    if (command.tiles > mostTiles)
      tiles.at(0).fail("is " + std::to_string(command.tiles) +
                       ", more than 2^24 tiles");
    command.group = tiles.at(1).atLeast(0);
    if (!before || before->group != command.group) {
      if (!ended.insert(command.group).second)
        tiles.fail("names a group that has ended");
      first = &command;
    } else if (before->tiles != command.tiles) {
      tiles.fail("is not that of its group");
    } else {
      ++first->groupSize;
      first->isUpdate &= command.isUpdate;
    }
    readTiled(node, interface, command);
    before = &command;
  }
}
