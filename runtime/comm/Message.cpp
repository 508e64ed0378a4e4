#include "comm/Message.h"
#include "comm/Checksum.h"

#include <algorithm>
#include <cstdio>

using namespace scalify::rt;

namespace {
constexpr uint64_t magic = 0x3267736d'6c616373;

/// "128 bytes of all_gather 'x' (f32, 32 elements, step 5)".
std::string describeHeader(const MessageHeader &header) {
  std::string text = std::to_string(header.bytes) + " bytes of " +
                     name(header.kind) + " '" + header.name + "' (";
  bool isJoined = header.kind == Collective::Kind::AllReduce ||
                  header.kind == Collective::Kind::ReduceScatter;
  if (isJoined)
    text += std::string(name(header.join)) + " of ";
  return text + std::to_string(header.elements) + " " + name(header.type) +
         ", step " + std::to_string(header.step) + ")";
}

bool isReadable(const MessageHeader &header) {
  return header.magic == magic && header.kind <= Collective::Kind::Message &&
         header.join <= Join::Or && header.type <= DType::F64 &&
         std::find(std::begin(header.name), std::end(header.name), '\0') !=
             std::end(header.name);
}
} // namespace

MessageHeader scalify::rt::makeHeader(const Collective &collective,
                                      uint64_t step, uint64_t program) {
  MessageHeader header = {};
  header.magic = magic;
  header.step = step;
  header.program = program;
  header.elements = collective.elements;
  header.kind = collective.kind;
  header.type = collective.type;
  if (collective.kind == Collective::Kind::AllReduce ||
      collective.kind == Collective::Kind::ReduceScatter)
    header.join = collective.join;
  header.agreement = checksum(collective.name.data(), collective.name.size());
  // A permute's messages concern two ranks only, which need not know the other
  // members.
  if (collective.kind < Collective::Kind::Permute)
    header.agreement ^= checksum(collective.members.data(),
                                 collective.members.size() * sizeof(int32_t));
  std::snprintf(header.name, sizeof(header.name), "%s",
                collective.name.c_str());
  return header;
}

std::string scalify::rt::difference(const MessageHeader &came,
                                    const MessageHeader &expected, int32_t peer,
                                    int32_t rank) {
  std::string sender = "rank " + std::to_string(peer);
  if (!isReadable(came))
    return "a message of " + sender + " is damaged";
  std::string sent = describeHeader(came), wanted = describeHeader(expected);
  if (sent != wanted)
    return sender + " sent " + sent + " where rank " + std::to_string(rank) +
           " expects " + wanted;
  if (came.program != expected.program)
    return sender + " runs another program than rank " + std::to_string(rank) +
           " in " + wanted +
           ": all ranks call the same steps, with arrays of the same shapes";
  if (came.agreement != expected.agreement)
    return sender + " and rank " + std::to_string(rank) +
           " differ in the members or the name of " + wanted;
  if (came.sequence != expected.sequence)
    return sender + " sent message " + std::to_string(came.sequence) +
           " to rank " + std::to_string(rank) + " where it expects message " +
           std::to_string(expected.sequence) + ", " + wanted;
  return "";
}

std::string scalify::rt::describe(const Collective &collective, uint64_t step) {
  return "step " + std::to_string(step) + ", " + name(collective.kind) + " '" +
         collective.name + "'" +
         (collective.loc.empty() ? "" : " at " + collective.loc);
}
