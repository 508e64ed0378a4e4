#include "comm/Communicator.h"
#include "comm/Pieces.h"

#include <algorithm>
#include <numeric>

using namespace scalify::rt;

const char *scalify::rt::name(Collective::Kind kind) {
  switch (kind) {
  case Collective::Kind::AllReduce:
    return "all_reduce";
  case Collective::Kind::ReduceScatter:
    return "reduce_scatter";
  case Collective::Kind::AllGather:
    return "all_gather";
  case Collective::Kind::Broadcast:
    return "broadcast";
  case Collective::Kind::AllToAll:
    return "all_to_all";
  case Collective::Kind::Permute:
    return "permute";
  case Collective::Kind::Message:
    return "message";
  }
  return "";
}

const char *scalify::rt::name(Join join) {
  switch (join) {
  case Join::Sum:
    return "sum";
  case Join::Product:
    return "product";
  case Join::Max:
    return "max";
  case Join::Min:
    return "min";
  case Join::And:
    return "and";
  case Join::Or:
    return "or";
  }
  return "";
}

Collective scalify::rt::makeGatherOfAll(int32_t ranks, const char *name,
                                        size_t bytes) {
  Collective gather;
  gather.kind = Collective::Kind::AllGather;
  gather.type = DType::U8;
  gather.elements = int64_t(bytes);
  gather.name = name;
  gather.members.resize(size_t(ranks));
  std::iota(gather.members.begin(), gather.members.end(), 0);
  return gather;
}

int64_t scalify::rt::bytesSent(const Collective &collective, int32_t rank) {
  int64_t width = byteWidth(collective.type);
  int64_t elements = collective.elements;
  if (collective.kind >= Collective::Kind::Permute)
    return collective.to < 0 || collective.to == rank ? 0 : elements * width;
  const std::vector<int32_t> &members = collective.members;
  int64_t count = int64_t(members.size());
  int64_t others = count - 1;
  int64_t place =
      std::find(members.begin(), members.end(), rank) - members.begin();
  if (others < 1 || place == count)
    return 0;
  switch (collective.kind) {
  case Collective::Kind::AllReduce: {
    // It sends the other members' pieces to them, then its own reduced piece to
    // all of them.
    int64_t own = getPiece(elements, count, place).elements;
    return (elements - own + own * others) * width;
  }
  case Collective::Kind::AllGather:
    return elements * others * width;
  case Collective::Kind::Broadcast:
    return place == 0 ? elements * others * width : 0;
  default:
    return elements / count * others * width;
  }
}
