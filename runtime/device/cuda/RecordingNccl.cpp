// The recording's NCCL. If the ranks of a test share a fabric, exchanges move
// data and reduce them, in another order than ours, as NCCL does.
#include "comm/JoinParts.h"
#include "device/cuda/RecordingObjects.h"

#include <algorithm>
#include <cstring>
#include <utility>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

void Fabric::send(const std::string &box, Mail mail) {
  std::lock_guard<std::mutex> lock(mutex);
  boxes[box].push_back(std::move(mail));
  came.notify_all();
}

std::optional<Fabric::Mail> Fabric::receive(const std::string &box) {
  std::unique_lock<std::mutex> lock(mutex);
  if (!came.wait_for(lock, std::chrono::seconds(2),
                     [&] { return !boxes[box].empty(); }))
    return std::nullopt;
  Mail mail = std::move(boxes[box].front());
  boxes[box].pop_front();
  return mail;
}

namespace {
DType elementOf(NcclType type) {
  constexpr DType types[] = {DType::I8,   DType::U8,       DType::I32,
                             DType::U32,  DType::I64,      DType::U64,
                             DType::F16,  DType::F32,      DType::F64,
                             DType::BF16, DType::F8E4M3FN, DType::F8E5M2};
  return types[type];
}

bool overlap(const void *a, size_t aBytes, const void *b, size_t bBytes) {
  DevicePtr x = onDevice(a), y = onDevice(b);
  return x < y + bBytes && y < x + aBytes;
}
} // namespace

class RecordingDriver::RecordedNccl : public Nccl {
public:
  explicit RecordedNccl(RecordingDriver &driver) : driver(driver) {
    bindMaking();
    bindEnding();
    bindState();
    bindExchange();
    bindCollectives();
  }

private:
  struct Group {
    std::string name; // the same on all its ranks
    int size = 1, place = 0, splits = 0;
    bool isSettled = false;                       // polled once
    NcclComm *toChild = nullptr, child = nullptr; // of a pending split
    int pollsToChild = 0;                         // until the split is done
  };
  struct Transfer {
    NcclComm comm;
    const void *from;
    void *to;
    size_t bytes;
    int peer;
  };

  void bindMaking();
  void bindEnding();
  void bindState();
  void bindExchange();
  void bindCollectives();

  bool fails(const char *call) { return driver.fails(call); }
  Group *find(NcclComm comm) {
    auto found = groups.find(comm);
    return found == groups.end() ? nullptr : &found->second;
  }
  /// A single rank does not know the other members of a group.
  size_t sizeOf(const Group &group) const {
    return driver.fabric ? size_t(group.size) : 1;
  }
  std::string boxOf(const Group &group, int from, int to) const {
    return group.name + " " + std::to_string(from) + ">" + std::to_string(to);
  }
  NcclStatus add(NcclComm *out, Group group) {
    driver.make(out, Kind::Comm);
    groups[*out] = std::move(group);
    return NcclInProgress;
  }
  void post(const Group &group, int to, const void *data, size_t bytes);
  std::optional<Fabric::Mail> hear(const Group &group, int from);
  void splitBy(const Group &parent, int color, int key, Group &child);
  NcclStatus record(const std::string &text, NcclComm comm, StreamHandle on);
  bool gatherAll(const Group &group, const void *source, size_t bytes,
                 std::vector<Fabric::Mail> &parts);
  NcclStatus joinAll(NcclComm comm, const void *source, size_t bytes,
                     NcclType type, NcclOp op, Fabric::Mail &joined);
  NcclStatus end();

  RecordingDriver &driver;
  std::map<NcclComm, Group> groups;
  std::vector<Transfer> transfers; // of the open group call
  int depth = 0;
};

void RecordingDriver::RecordedNccl::post(const Group &group, int to,
                                         const void *data, size_t bytes) {
  const auto *first = static_cast<const uint8_t *>(data);
  driver.fabric->send(boxOf(group, group.place, to), {first, first + bytes});
}

/// A missing message leaves a kernel that waits.
std::optional<Fabric::Mail>
RecordingDriver::RecordedNccl::hear(const Group &group, int from) {
  auto mail = driver.fabric->receive(boxOf(group, from, group.place));
  driver.isStuck |= !mail;
  return mail;
}

void RecordingDriver::RecordedNccl::splitBy(const Group &parent, int color,
                                            int key, Group &child) {
  const int own[3] = {color, key, parent.place};
  std::vector<Fabric::Mail> parts;
  if (!gatherAll(parent, own, sizeof(own), parts))
    return;
  std::vector<std::pair<int, int>> members; // key, place in the parent
  for (const Fabric::Mail &mail : parts) {
    int other[3];
    std::memcpy(other, mail.data(), sizeof(other));
    if (other[0] == color)
      members.emplace_back(other[1], other[2]);
  }
  std::sort(members.begin(), members.end());
  child.size = int(members.size());
  auto self = std::find(members.begin(), members.end(),
                        std::make_pair(key, parent.place));
  child.place = int(self - members.begin());
}

void RecordingDriver::RecordedNccl::bindMaking() {
  ncclGetVersion = [this](int *out) {
    *out = driver.ncclVersion;
    return fails("ncclGetVersion") ? NcclInternalError : NcclSuccess;
  };
  ncclGetUniqueId = [this](NcclId *out) {
    std::snprintf(out->bytes, sizeof(out->bytes), "id-%p",
                  static_cast<void *>(out));
    return fails("ncclGetUniqueId") ? NcclSystemError : NcclSuccess;
  };
  ncclCommInitRankConfig = [this](NcclComm *out, int ranks, NcclId id, int rank,
                                  NcclConfig *config) {
    if (fails("ncclCommInitRankConfig") || rank < 0 || rank >= ranks ||
        config->size != sizeof(NcclConfig) || config->blocking != 0)
      return NcclInvalidArgument;
    add(out, {id.bytes, ranks, rank});
    driver.line("ncclCommInitRank rank=" + std::to_string(rank) + " of " +
                std::to_string(ranks));
    return NcclInProgress;
  };
  ncclCommSplit = [this](NcclComm comm, int color, int key, NcclComm *out,
                         NcclConfig *) {
    Group *parent = find(comm);
    if (fails("ncclCommSplit") || !parent || !parent->isSettled)
      return NcclInvalidUsage;
    Group child = *parent; // without a fabric of the same size
    child.name +=
        "/" + std::to_string(parent->splits++) + ":" + std::to_string(color);
    child.place = key;
    child.isSettled = false;
    child.splits = 0;
    if (driver.fabric)
      splitBy(*parent, color, key, child);
    // As in NCCL 2.28, which returns success and reports the parent ready at
    // once, and writes the child when the split is done.
    *out = nullptr;
    NcclComm made = nullptr;
    add(&made, child);
    parent->toChild = out;
    parent->child = made;
    parent->pollsToChild = 2;
    driver.line("ncclCommSplit color=" + std::to_string(color) +
                " key=" + std::to_string(key) + " comm" +
                driver.get(made, Kind::Comm)->name);
    return NcclSuccess;
  };
}

void RecordingDriver::RecordedNccl::bindEnding() {
  ncclCommFinalize = [this](NcclComm comm) {
    if (fails("ncclCommFinalize") || !find(comm))
      return NcclInvalidArgument;
    find(comm)->isSettled = false;
    return NcclInProgress;
  };
  auto destroy = [this](const char *call, NcclComm comm) {
    driver.line(std::string(call) + " comm" +
                driver.get(comm, Kind::Comm)->name);
    groups.erase(comm);
    driver.destroy(comm, Kind::Comm);
    return NcclSuccess;
  };
  ncclCommDestroy = [=](NcclComm comm) {
    if (fails("ncclCommDestroy") || !find(comm) || !find(comm)->isSettled)
      return NcclInvalidArgument;
    return destroy("ncclCommDestroy", comm);
  };
  ncclCommAbort = [=](NcclComm comm) {
    Group *group = find(comm);
    if (!group)
      return NcclInvalidArgument;
    if (group->toChild)
      *group->toChild = group->child;
    driver.isStuck = false;
    return destroy("ncclCommAbort", comm);
  };
}

void RecordingDriver::RecordedNccl::bindState() {
  ncclCommGetAsyncError = [this](NcclComm comm, NcclStatus *out) {
    Group *group = find(comm);
    if (fails("ncclCommGetAsyncError") || !group)
      return NcclInvalidArgument;
    *out = driver.ncclState != NcclSuccess ? driver.ncclState
           : group->isSettled              ? NcclSuccess
                                           : NcclInProgress;
    if (*out == NcclSuccess && group->toChild && --group->pollsToChild < 0)
      *std::exchange(group->toChild, nullptr) = group->child;
    group->isSettled = true;
    return NcclSuccess;
  };
  ncclGetLastError = [](NcclComm) { return "an error of the recording"; };
  ncclGetErrorString = [](NcclStatus status) {
    return status == NcclRemoteError ? "remote process exited or there was a "
                                       "network error"
                                     : "recorded failure";
  };
}

NcclStatus RecordingDriver::RecordedNccl::record(const std::string &text,
                                                 NcclComm comm,
                                                 StreamHandle on) {
  Group *group = find(comm);
  if (!group || !group->isSettled)
    return NcclInvalidUsage;
  std::string line = text + " comm" + driver.get(comm, Kind::Comm)->name;
  return driver.work(line, on) == Success ? NcclSuccess
                                          : NcclUnhandledCudaError;
}

void RecordingDriver::RecordedNccl::bindExchange() {
  ncclGroupStart = [this] {
    ++depth;
    return fails("ncclGroupStart") ? NcclInternalError : NcclSuccess;
  };
  ncclGroupEnd = [this] {
    if (depth != 1)
      return NcclInvalidUsage;
    depth = 0;
    return end();
  };
  auto transfer = [this](const char *call, const void *from, void *to,
                         size_t bytes, int peer, NcclComm comm,
                         StreamHandle on) {
    const void *place = from ? from : to;
    Group *group = find(comm);
    if (fails(call) || depth == 0 || !group || peer < 0 ||
        peer >= group->size || !driver.covers(onDevice(place), bytes))
      return NcclInvalidArgument;
    transfers.push_back({comm, from, to, bytes, peer});
    return record(std::string(call) + " " + driver.at(place) + " bytes=" +
                      std::to_string(bytes) + " peer=" + std::to_string(peer),
                  comm, on);
  };
  ncclSend = [=](const void *from, size_t count, NcclType, int peer,
                 NcclComm comm, StreamHandle on) {
    return transfer("ncclSend", from, nullptr, count, peer, comm, on);
  };
  ncclRecv = [=](void *to, size_t count, NcclType, int peer, NcclComm comm,
                 StreamHandle on) {
    return transfer("ncclRecv", nullptr, to, count, peer, comm, on);
  };
}

NcclStatus RecordingDriver::RecordedNccl::end() {
  std::vector<Transfer> ready = std::move(transfers);
  transfers.clear();
  if (fails("ncclGroupEnd"))
    return NcclInternalError;
  for (const Transfer &out : ready)
    for (const Transfer &in : ready)
      if (out.from && in.to && overlap(out.from, out.bytes, in.to, in.bytes)) {
        driver.line("ncclGroupEnd refused: a send and a receive overlap");
        return NcclInvalidUsage;
      }
  if (!driver.fabric)
    return NcclSuccess;
  for (const Transfer &t : ready)
    if (t.from)
      post(*find(t.comm), t.peer, t.from, t.bytes);
  for (const Transfer &t : ready) {
    if (!t.to)
      continue;
    auto mail = hear(*find(t.comm), t.peer);
    if (mail && mail->size() != t.bytes)
      return NcclInvalidUsage;
    if (mail)
      std::memcpy(t.to, mail->data(), t.bytes);
    find(t.comm)->isSettled = false;
  }
  return NcclInProgress;
}

/// Gathers the bytes of all members, in the order of places.
bool RecordingDriver::RecordedNccl::gatherAll(
    const Group &group, const void *source, size_t bytes,
    std::vector<Fabric::Mail> &parts) {
  for (int to = 0; to < group.size; ++to)
    post(group, to, source, bytes);
  for (int from = 0; from < group.size; ++from) {
    auto mail = hear(group, from);
    if (!mail || mail->size() != bytes)
      return false;
    parts.push_back(std::move(*mail));
  }
  return true;
}

/// Reduces from the last rank to the first: a ring's sum starts anywhere.
NcclStatus RecordingDriver::RecordedNccl::joinAll(NcclComm comm,
                                                  const void *source,
                                                  size_t bytes, NcclType type,
                                                  NcclOp op,
                                                  Fabric::Mail &joined) {
  constexpr Join joins[] = {Join::Sum, Join::Product, Join::Max, Join::Min};
  std::vector<Fabric::Mail> parts;
  if (!gatherAll(*find(comm), source, bytes, parts))
    return NcclSuccess; // the kernel waits
  std::vector<const void *> places;
  for (size_t i = parts.size(); i-- > 0;)
    places.push_back(parts[i].data());
  joined.resize(bytes);
  DType element = elementOf(type);
  joinParts(joins[op], element, places, joined.data(),
            int64_t(bytes) / byteWidth(element));
  return NcclSuccess;
}

void RecordingDriver::RecordedNccl::bindCollectives() {
  auto text = [this](const char *call, const void *from, const void *to,
                     size_t count) {
    return std::string(call) + " " + driver.at(to) + " from " +
           driver.at(from) + " count=" + std::to_string(count);
  };
  auto isPlaced = [this](const void *from, size_t taken, const void *to,
                         size_t given) {
    return driver.covers(onDevice(from), taken) &&
           driver.covers(onDevice(to), given);
  };
  ncclAllGather = [=](const void *from, void *to, size_t count, NcclType,
                      NcclComm comm, StreamHandle on) {
    Group *group = find(comm);
    if (fails("ncclAllGather") || !group ||
        !isPlaced(from, count, to, count * sizeOf(*group)))
      return NcclInvalidArgument;
    NcclStatus status =
        record(text("ncclAllGather", from, to, count), comm, on);
    std::vector<Fabric::Mail> parts;
    if (status == NcclSuccess && driver.fabric &&
        gatherAll(*group, from, count, parts))
      for (size_t i = 0; i < parts.size(); ++i)
        std::memcpy(static_cast<uint8_t *>(to) + i * count, parts[i].data(),
                    count);
    return status;
  };
  ncclBroadcast = [=](const void *from, void *to, size_t count, NcclType,
                      int root, NcclComm comm, StreamHandle on) {
    Group *group = find(comm);
    if (fails("ncclBroadcast") || !group || !isPlaced(from, count, to, count) ||
        root < 0 || size_t(root) >= sizeOf(*group))
      return NcclInvalidArgument;
    NcclStatus status = record(text("ncclBroadcast", from, to, count) +
                                   " root=" + std::to_string(root),
                               comm, on);
    std::vector<Fabric::Mail> parts;
    if (status == NcclSuccess && driver.fabric &&
        gatherAll(*group, from, count, parts))
      std::memcpy(to, parts[size_t(root)].data(), count);
    return status;
  };
  auto join = [=](const char *call, const void *from, void *to, size_t taken,
                  size_t given, size_t first, NcclType type, NcclOp op,
                  NcclComm comm, StreamHandle on) {
    auto width = size_t(byteWidth(elementOf(type)));
    if (fails(call) || !isPlaced(from, taken * width, to, given * width))
      return NcclInvalidArgument;
    NcclStatus status =
        record(text(call, from, to, given) + " type=" + name(elementOf(type)) +
                   " op=" + std::to_string(op),
               comm, on);
    Fabric::Mail joined;
    if (status == NcclSuccess && driver.fabric)
      status = joinAll(comm, from, taken * width, type, op, joined);
    if (!joined.empty())
      std::memcpy(to, joined.data() + first * width, given * width);
    return status;
  };
  ncclAllReduce = [=](const void *from, void *to, size_t count, NcclType type,
                      NcclOp op, NcclComm comm, StreamHandle on) {
    return join("ncclAllReduce", from, to, count, count, 0, type, op, comm, on);
  };
  ncclReduceScatter = [=](const void *from, void *to, size_t count,
                          NcclType type, NcclOp op, NcclComm comm,
                          StreamHandle on) {
    Group *group = find(comm);
    if (!group)
      return NcclInvalidArgument;
    return join("ncclReduceScatter", from, to, count * sizeOf(*group), count,
                count * size_t(group->place), type, op, comm, on);
  };
}

std::shared_ptr<Nccl> RecordingDriver::openNccl() {
  return std::make_shared<RecordedNccl>(*this);
}
