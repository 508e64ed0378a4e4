#include "comm/RecordCommunicator.h"
#include "comm/JoinParts.h"
#include "support/Error.h"

#include <algorithm>
#include <cstring>

using namespace scalify::rt;

namespace {
using Kind = Collective::Kind;

bool isJoined(const Collective &collective) {
  return collective.kind == Kind::AllReduce ||
         collective.kind == Kind::ReduceScatter;
}

std::string lineOf(const Collective &collective, uint64_t step, int32_t rank) {
  std::string line =
      "step=" + std::to_string(step) + " " + name(collective.kind) + " ";
  if (isJoined(collective))
    line += std::string(name(collective.join)) + " ";
  line += name(collective.type);
  line += " elements=" + std::to_string(collective.elements);
  if (collective.kind >= Kind::Permute) {
    line += " to=" + std::to_string(collective.to) +
            " from=" + std::to_string(collective.from);
  } else {
    std::string members;
    for (int32_t member : collective.members)
      members += (members.empty() ? "" : ",") + std::to_string(member);
    line += " members=" + members;
  }
  return line + " sent=" + std::to_string(bytesSent(collective, rank)) + " '" +
         collective.name + "'\n";
}
} // namespace

void RecordCommunicator::run(const Collective &collective, const void *source,
                             void *destination) {
  if (isJoined(collective))
    requireReduction(collective.join, collective.type);
  const std::vector<int32_t> &members = collective.members;
  auto place =
      size_t(std::find(members.begin(), members.end(), self) - members.begin());
  if (collective.kind < Kind::Permute && place == members.size())
    badArgument("rank " + std::to_string(self) + " is not in its own group");
  lines += lineOf(collective, step, self);
  total += uint64_t(rt::bytesSent(collective, self));

  auto bytes = size_t(collective.elements * byteWidth(collective.type));
  size_t part = bytes / std::max(members.size(), size_t(1));
  const auto *from = static_cast<const uint8_t *>(source);
  auto *to = static_cast<uint8_t *>(destination);
  // Copies this rank's own part and fills the rest with zeros.
  auto keepOwn = [&](const uint8_t *own, size_t at, size_t count, size_t all) {
    if (count)
      std::memmove(to + at, own, count);
    std::fill(to, to + at, 0);
    std::fill(to + at + count, to + all, 0);
  };
  switch (collective.kind) {
  case Kind::AllReduce:
    return keepOwn(from, 0, bytes, bytes);
  case Kind::ReduceScatter:
    return keepOwn(from + place * part, 0, part, part);
  case Kind::AllGather:
    return keepOwn(from, place * bytes, bytes, members.size() * bytes);
  case Kind::Broadcast:
    return keepOwn(from, 0, place == 0 ? bytes : 0, bytes);
  case Kind::AllToAll:
    return keepOwn(from + place * part, place * part, part, bytes);
  case Kind::Permute:
    return keepOwn(from, 0, collective.from == self ? bytes : 0, bytes);
  case Kind::Message:
    if (collective.from >= 0)
      std::fill(to, to + bytes, 0);
    return;
  }
}
