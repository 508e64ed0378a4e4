#include "loader/CollectiveReader.h"
#include "comm/JoinParts.h"
#include "loader/CommandReader.h"

#include <algorithm>

using namespace scalify::rt;

namespace {
using Kind = Collective::Kind;

/// Returns the entry of `values` with the node's name.
template <typename Enum, size_t N>
Enum readEnum(const JsonNode &node, const Enum (&values)[N]) {
  std::string text = node.text();
  for (Enum value : values)
    if (text == name(value))
      return value;
  node.fail("is '" + text + "', which this runtime does not know");
}

/// Reads groups of ranks, of one length. No rank may be named twice; in a
/// permute it may be both a source and a destination.
void readGroups(const JsonNode &rows, const Program &program,
                Command &command) {
  const bool isPermute = command.collective.kind == Kind::Permute;
  const auto ranks = static_cast<size_t>(program.stageRanks);
  std::vector<uint8_t> seen(ranks * 2);
  for (size_t i = 0; i < rows.size(); ++i) {
    JsonNode row = rows.at(i);
    std::vector<int32_t> &group = command.groups.emplace_back();
    for (size_t j = 0; j < row.size(); ++j) {
      int32_t rank = row.at(j).index(ranks, "ranks");
      size_t place = size_t(rank) * 2 + (isPermute ? j % 2 : 0);
      if (seen[place]++)
        row.at(j).fail("names rank " + std::to_string(rank) + " again");
      group.push_back(rank);
    }
    if (group.size() != (isPermute ? 2 : command.groups.front().size()) ||
        group.empty())
      row.fail("has " + std::to_string(group.size()) + " ranks");
  }
  if (!isPermute)
    for (size_t rank = 0; rank < ranks; ++rank)
      if (!seen[rank * 2])
        rows.fail("leave out rank " + std::to_string(rank));
}

/// Returns the destination's elements.
int64_t resultElements(const JsonNode &node, const Command &command) {
  const Collective &what = command.collective;
  const int64_t size =
      command.groups.empty() ? 1 : int64_t(command.groups.front().size());
  switch (what.kind) {
  case Kind::AllReduce:
  case Kind::Broadcast:
  case Kind::Permute:
  case Kind::Message:
    return what.elements;
  case Kind::AllGather: {
    int64_t all = 0;
    if (__builtin_mul_overflow(what.elements, size, &all))
      node["groups"].fail("are too large");
    return all;
  }
  case Kind::ReduceScatter:
  case Kind::AllToAll:
    if (what.elements % size)
      node["src"].fail("has " + std::to_string(what.elements) +
                       " elements, which " + std::to_string(size) +
                       " ranks do not divide");
    return what.kind == Kind::AllToAll ? what.elements : what.elements / size;
  }
  return 0;
}
} // namespace

void scalify::rt::readCollective(const JsonNode &node,
                                 const Interface &interface,
                                 const Program &program, Command &command) {
  constexpr Kind kinds[] = {
      Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::Broadcast,
      Kind::AllToAll,  Kind::Permute,       Kind::Message};
  constexpr Join joins[] = {Join::Sum, Join::Product, Join::Max,
                            Join::Min, Join::And,     Join::Or};
  Collective &what = command.collective;
  what.kind = readEnum(node["kind"], kinds);
  if (what.kind == Kind::AllReduce || what.kind == Kind::ReduceScatter)
    what.join = readEnum(node["join"], joins);
  what.name = command.name;
  what.loc = command.loc;
  const bool isSend = what.kind == Kind::Message && node.has("to");
  // One rank has no other to send to, and its collectives copy.
  if (what.kind == Kind::Message && program.ranks == program.stageRanks)
    node["kind"].fail("is 'message', which needs a pipeline of stages");
  if (what.kind == Kind::Message)
    (isSend ? what.to : what.from) = node[isSend ? "to" : "from"].index(
        size_t(program.ranks / program.stageRanks), "stages");
  else
    readGroups(node["groups"], program, command);
  command.buffers = {bufferIndex(node["src"], interface),
                     bufferIndex(node["dst"], interface)};
  if (!isSend)
    requireWritable(node["dst"], command.buffers[1], interface);
  const Buffer &source = interface.buffers[command.buffers[0]];
  const Buffer &destination = interface.buffers[command.buffers[1]];
  what.type = source.type.dtype;
  what.elements = source.type.elements;
  if (node.has("join") && !canReduce(what.join, what.type))
    node["join"].fail("is '" + node["join"].text() +
                      "', which does not apply to " + name(what.type) +
                      " elements");
  addBytes(command, source);
  addBytes(command, destination);
  if (destination.type.dtype != what.type ||
      destination.type.elements != resultElements(node, command))
    node["dst"].fail("is of type " + toString(destination.type) +
                     ", which is not the result type of " +
                     toString(source.type));
}

void scalify::rt::joinGroup(Command &command, int32_t rank,
                            int32_t stageRanks) {
  Collective &what = command.collective;
  const int32_t place = rank % stageRanks, first = rank - place;
  if (what.kind == Kind::Message) {
    for (int32_t *stage : {&what.to, &what.from})
      if (*stage >= 0)
        *stage = *stage * stageRanks + place;
    return;
  }
  for (const std::vector<int32_t> &group : command.groups) {
    if (what.kind != Kind::Permute) {
      if (std::find(group.begin(), group.end(), place) != group.end())
        what.members = group;
      continue;
    }
    if (group[0] == place)
      what.to = first + group[1];
    if (group[1] == place)
      what.from = first + group[0];
  }
  for (int32_t &member : what.members)
    member += first;
}
