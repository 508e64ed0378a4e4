#include "device/cuda/Collectives.h"
#include "comm/Launch.h"
#include "comm/Message.h"
#include "device/cuda/NcclContract.h"
#include "support/Error.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
using Kind = Collective::Kind;

bool isExchange(Kind kind) { return kind >= Kind::AllToAll; }

/// Conservative: an argument and a result may share memory.
bool mayOverlap(const Buffer &a, const Buffer &b) {
  bool isTemp = a.kind == Buffer::Kind::Temp;
  if (isTemp != (b.kind == Buffer::Kind::Temp))
    return false;
  return !isTemp || (a.offset < b.offset + b.type.bytes &&
                     b.offset < a.offset + a.type.bytes);
}

bool overlap(const void *a, const void *b, size_t bytes) {
  DevicePtr x = onDevice(a), y = onDevice(b);
  return x < y + bytes && y < x + bytes;
}

const uint8_t *at(const void *memory, size_t bytes) {
  return static_cast<const uint8_t *>(memory) + bytes;
}
uint8_t *at(void *memory, size_t bytes) {
  return static_cast<uint8_t *>(memory) + bytes;
}
} // namespace

Collectives::Collectives(const Session &opened, const Program &program,
                         Communicator *reached, int32_t number)
    : session(opened), nccl(session.driver->openNccl()), host(reached),
      rank(number), ranks(program.ranks), stageRanks(program.stageRanks),
      seconds(host ? host->timeout() : readTimeout()) {
  makeScratch(program);
  try {
    connect(program);
  } catch (...) {
    abort();
    throw;
  }
}

Collectives::~Collectives() {
  while (!made.empty()) {
    if (made.back() && !close(made.back())) {
      abort();
      return;
    }
    made.pop_back();
  }
}

/// Pairwise exchanges may involve any ranks, so they use a communicator of all.
Collectives::Key Collectives::keyOf(const Collective &what,
                                    const Groups &groups) const {
  Groups all(1, std::vector<int32_t>(size_t(ranks)));
  std::iota(all[0].begin(), all[0].end(), 0);
  bool isPairs = what.kind >= Kind::Permute;
  return {isPairs ? all : groups,
          what.kind == Kind::AllGather || what.kind == Kind::Broadcast
              ? Direction::Gather
              : Direction::Reduce};
}

void Collectives::connect(const Program &program) {
  int version = 0;
  check(nccl->ncclGetVersion(&version), "ncclGetVersion", nullptr);
  if (version < ncclVersionOfSplit)
    unsupported("NCCL is version " + std::to_string(version) +
                "; GPUs exchange by 2.18 or newer");
  std::vector<Key> keys; // in the order of the program
  std::vector<std::pair<size_t, Key>> needed;
  for (const Function &function : program.functions)
    for (const Command &command : function.commands) {
      if (command.op != Command::Op::Collective)
        continue;
      if (isJoined(command.collective))
        joinOf(command.collective, version);
      Key key = keyOf(command.collective, command.groups);
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        keys.push_back(key);
      needed.emplace_back(command.index, std::move(key));
    }
  keys = agree(std::move(keys));
  for (const auto &[index, key] : needed) {
    auto found = std::find(keys.begin(), keys.end(), key);
    routes[index] = size_t(found - keys.begin());
    events.push_back(session.makeEvent(UntimedEvent));
  }
  makeCommunicators(shareId(), keys);
}

/// Merges the keys of all ranks. Stages of a pipeline have programs of their
/// own, but all ranks create a communicator together: every rank creates those
/// that any rank needs, in one order.
std::vector<Collectives::Key> Collectives::agree(std::vector<Key> keys) const {
  if (!host || stageRanks == ranks)
    return keys;
  std::vector<int32_t> own = {int32_t(keys.size())};
  for (const auto &[groups, direction] : keys) {
    own.push_back(int32_t(direction));
    own.push_back(int32_t(groups.size()));
    for (const std::vector<int32_t> &group : groups) {
      own.push_back(int32_t(group.size()));
      own.insert(own.end(), group.begin(), group.end());
    }
  }
  auto count = size_t(ranks);
  const uint64_t length = own.size();
  std::vector<uint64_t> lengths(count);
  host->run(makeGatherOfAll(ranks, "lengths of groups of GPUs", sizeof length),
            &length, lengths.data());
  const size_t most = *std::max_element(lengths.begin(), lengths.end());
  own.resize(most);
  std::vector<int32_t> all(count * most);
  host->run(makeGatherOfAll(ranks, "groups of GPUs", most * sizeof(int32_t)),
            own.data(), all.data());
  std::set<Key> found;
  for (size_t other = 0; other < count; ++other) {
    const int32_t *at = all.data() + other * most;
    for (int32_t left = *at++; left > 0; --left) {
      auto direction = Direction(*at++);
      Groups groups(size_t(*at++));
      for (std::vector<int32_t> &group : groups) {
        const int32_t size = *at++;
        group.assign(at, at + size);
        at += size;
      }
      found.emplace(std::move(groups), direction);
    }
  }
  return {found.begin(), found.end()};
}

void Collectives::makeCommunicators(NcclId id, const std::vector<Key> &keys) {
  NcclConfig config;
  // NCCL writes the handle once the communicator is created, from a thread of
  // its own: the handles must not move.
  made.reserve(keys.size() + 1);
  made.push_back(nullptr);
  NcclStatus status =
      nccl->ncclCommInitRankConfig(&made.back(), ranks, id, rank, &config);
  world = made.back();
  settle(status, "ncclCommInitRankConfig", world);
  for (const Key &key : keys) {
    // Pairwise exchanges use all ranks, other groups are within a stage.
    const bool isOfStage = key.first[0].size() <= size_t(stageRanks);
    const int32_t number = isOfStage ? rank % stageRanks : rank;
    int color = 0, place = number;
    for (size_t i = 0; i < key.first.size(); ++i) {
      const std::vector<int32_t> &group = key.first[i];
      auto found = std::find(group.begin(), group.end(), number);
      if (found == group.end())
        continue;
      color = int(i);
      place = int(found - group.begin());
    }
    if (isOfStage)
      color += rank / stageRanks * int(key.first.size());
    made.push_back(nullptr);
    status = nccl->ncclCommSplit(world, color, place, &made.back(), &config);
    waitForSplit(status, made.back());
    settle(NcclInProgress, "ncclCommSplit", made.back());
  }
}

/// Returns the id of rank 0. All ranks create the same communicators, since
/// they have loaded one step (loader/Agreement.h).
NcclId Collectives::shareId() {
  NcclId own = {};
  if (rank == 0)
    check(nccl->ncclGetUniqueId(&own), "ncclGetUniqueId", nullptr);
  if (!host)
    return own;
  std::vector<NcclId> all(static_cast<size_t>(ranks));
  host->run(makeGatherOfAll(ranks, "communicators of GPUs", sizeof own), &own,
            all.data());
  return all[0];
}

/// NCCL's point-to-point calls are not in place, but plans exchange in place.
void Collectives::makeScratch(const Program &program) {
  int64_t most = 0;
  for (const Function &function : program.functions)
    for (const Command &command : function.commands) {
      if (command.op != Command::Op::Collective ||
          !isExchange(command.collective.kind))
        continue;
      const Interface &interface = program.interfaceOf(function);
      const Buffer &source = interface.buffers[size_t(command.buffers[0])];
      if (mayOverlap(source, interface.buffers[size_t(command.buffers[1])]))
        most = std::max(most, source.type.bytes);
    }
  if (most)
    scratch = session.allocate(size_t(most), "exchange");
}

void Collectives::begin(const StepCall &call) {
  if (isAborted)
    throw Error(SCALIFY_RT_COMM, "NCCL's communicators were aborted when an "
                                 "earlier step failed; start all ranks anew");
  step = call.step;
  callback = call.poll;
  context = call.pollContext;
  issued.clear();
  numDone = 0;
}

void Collectives::issue(const Command &command, const void *source,
                        void *destination, StreamHandle stream) {
  const Driver &driver = *session.driver;
  const Collective &what = command.collective;
  current = &what;
  // One collective after another on every rank: kernels of two communicators
  // that run in different orders on two GPUs may wait for each other.
  if (!issued.empty() && issued.back().stream != stream)
    session.check(driver.cuStreamWaitEvent(stream, issued.back().event, 0),
                  "cuStreamWaitEvent");
  NcclComm comm = made[routes.at(command.index) + 1]; // the first is the world
  if (what.elements == 0)
    ;
  else if (isJoined(what))
    join(what, comm, source, destination, stream);
  else if (isExchange(what.kind))
    exchange(what, comm, source, destination, stream);
  else
    gather(what, comm, source, destination, stream);
  if (issued.size() == events.size())
    events.push_back(session.makeEvent(UntimedEvent));
  EventHandle event = events[issued.size()].get();
  session.check(driver.cuEventRecord(event, stream), "cuEventRecord");
  issued.push_back({&command, event, stream});
  current = nullptr;
}

/// Counts the bytes that a call sends; a single rank has no counter.
void Collectives::count(int64_t bytes) const {
  if (host)
    host->addBytesSent(uint64_t(bytes));
}

void Collectives::gather(const Collective &what, NcclComm comm,
                         const void *source, void *destination,
                         StreamHandle stream) const {
  auto bytes = size_t(what.elements * byteWidth(what.type));
  if (what.kind == Kind::Broadcast)
    settle(nccl->ncclBroadcast(source, destination, bytes, NcclUint8,
                               /*root=*/0, comm, stream),
           "ncclBroadcast", comm);
  else
    settle(nccl->ncclAllGather(source, destination, bytes, NcclUint8, comm,
                               stream),
           "ncclAllGather", comm);
  count(bytesSent(what, rank));
}

/// NCCL does not report the bytes it sends: counts those of a ring, as our own
/// transports do.
void Collectives::join(const Collective &what, NcclComm comm,
                       const void *source, void *destination,
                       StreamHandle stream) const {
  auto [type, op] = joinOf(what, ncclVersionOfFP8); // checked at load
  if (what.kind == Kind::AllReduce)
    settle(nccl->ncclAllReduce(source, destination, size_t(what.elements), type,
                               op, comm, stream),
           "ncclAllReduce", comm);
  else
    settle(nccl->ncclReduceScatter(source, destination,
                                   size_t(what.elements) / what.members.size(),
                                   type, op, comm, stream),
           "ncclReduceScatter", comm);
  count(bytesSent(what, rank));
}

const void *Collectives::apart(const void *source, const void *destination,
                               size_t bytes, StreamHandle stream) const {
  if (!overlap(source, destination, bytes))
    return source;
  session.check(session.driver->cuMemcpyDtoDAsync_v2(
                    scratch.get(), onDevice(source), bytes, stream),
                "cuMemcpyDtoDAsync");
  return pointer(scratch.get());
}

void Collectives::exchange(const Collective &what, NcclComm comm,
                           const void *source, void *destination,
                           StreamHandle stream) {
  auto bytes = size_t(what.elements * byteWidth(what.type));
  // A message without a sender leaves the destination unchanged.
  if (what.kind != Kind::Message)
    source = apart(source, destination, bytes, stream);
  if (what.kind == Kind::Permute && what.from < 0)
    session.check(session.driver->cuMemsetD8Async(onDevice(destination), 0,
                                                  bytes, stream),
                  "cuMemsetD8Async");
  // Peers are numbered by their place in the communicator.
  bool isPairs = what.kind >= Kind::Permute;
  auto isSelf = [&](int peer) {
    return (isPairs ? peer : what.members[size_t(peer)]) == rank;
  };
  int64_t sent = 0;
  auto send = [&](const void *from, size_t size, int peer) {
    check(nccl->ncclSend(from, size, NcclUint8, peer, comm, stream), "ncclSend",
          comm);
    sent += isSelf(peer) ? 0 : int64_t(size);
  };
  auto receive = [&](void *to, size_t size, int peer) {
    check(nccl->ncclRecv(to, size, NcclUint8, peer, comm, stream), "ncclRecv",
          comm);
  };
  check(nccl->ncclGroupStart(), "ncclGroupStart", comm);
  try {
    size_t parts = what.members.size();
    for (size_t i = 0; what.kind == Kind::AllToAll && i < parts; ++i) {
      send(at(source, i * (bytes / parts)), bytes / parts, int(i));
      receive(at(destination, i * (bytes / parts)), bytes / parts, int(i));
    }
    if (what.to >= 0)
      send(source, bytes, what.to);
    if (what.from >= 0)
      receive(destination, bytes, what.from);
  } catch (...) {
    nccl->ncclGroupEnd(); // else this thread's next call joins the group
    throw;
  }
  settle(nccl->ncclGroupEnd(), "ncclGroupEnd", comm);
  count(sent);
}

void Collectives::finish(StreamHandle stream) {
  // A rank that does not get here reports why, or is found dead.
  if (host)
    host->run(makeGatherOfAll(ranks, "step is issued", 0), nullptr, nullptr);
  await(stream);
}

void Collectives::await(StreamHandle stream) {
  const Driver &driver = *session.driver;
  auto last = Clock::now();
  for (uint64_t turn = 0;; ++turn) {
    Status status = driver.cuStreamQuery(stream);
    if (status != NotReady) {
      session.check(status, "cuStreamQuery");
      return;
    }
    while (numDone < issued.size() &&
           driver.cuEventQuery(issued[numDone].event) == Success) {
      ++numDone;
      last = Clock::now();
    }
    current = numDone < issued.size() ? &issued[numDone].command->collective
                                      : nullptr;
    checkAll();
    poll();
    if (!current)
      last = Clock::now(); // only computation is left: no peer is waited for
    if (std::chrono::duration<double>(Clock::now() - last).count() > seconds)
      late(Clock::now() - last);
    if (turn > 1000) // short steps finish earlier
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void Collectives::checkAll() {
  for (NcclComm comm : made) {
    if (!comm)
      continue;
    NcclStatus found = NcclSuccess;
    check(nccl->ncclCommGetAsyncError(comm, &found), "ncclCommGetAsyncError",
          comm);
    if (found != NcclInProgress)
      check(found, "NCCL", comm);
  }
}

void Collectives::poll() const {
  auto now = Clock::now();
  if (!callback || now - lastPoll < std::chrono::milliseconds(50))
    return;
  lastPoll = now;
  if (callback(context))
    throw Error(SCALIFY_RT_INTERRUPTED, "the run was interrupted");
}

void Collectives::check(NcclStatus status, const char *call,
                        NcclComm comm) const {
  if (status == NcclSuccess || status == NcclInProgress)
    return;
  const char *words = nccl->ncclGetErrorString(status);
  const char *last = nccl->ncclGetLastError(comm);
  std::string text = std::string(call) + " failed: " +
                     (words ? words : "status " + std::to_string(status));
  fail(last && *last ? text + " (" + last + ")" : text);
}

/// Waits until a call is finished: later calls on the communicator or its
/// stream must come after that.
void Collectives::settle(NcclStatus status, const char *call,
                         NcclComm comm) const {
  auto start = Clock::now();
  while (status == NcclInProgress && comm) {
    check(nccl->ncclCommGetAsyncError(comm, &status), "ncclCommGetAsyncError",
          comm);
    if (status != NcclInProgress)
      break;
    pauseSince(start);
  }
  check(status, call, comm);
}

/// Waits briefly. Throws an Error after the timeout or if a rank has failed.
void Collectives::pauseSince(Clock::time_point start) const {
  poll();
  if (std::chrono::duration<double>(Clock::now() - start).count() > seconds)
    late(Clock::now() - start);
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

/// NCCL writes the child when the split is done. Whether the parent counts as
/// busy until then depends on the version (2.28 reports it ready at once).
void Collectives::waitForSplit(NcclStatus status, NcclComm &child) const {
  auto start = Clock::now();
  while (!__atomic_load_n(&child, __ATOMIC_ACQUIRE)) {
    settle(status, "ncclCommSplit", world);
    status = NcclInProgress; // query the parent's state again
    pauseSince(start);
  }
}

std::string Collectives::where() const {
  return current ? describe(*current, step) + ": " : "";
}

void Collectives::fail(const std::string &text) const {
  throw Error(SCALIFY_RT_COMM, where() + text);
}

void Collectives::late(Clock::duration since) const {
  std::string members;
  for (int32_t member : current ? current->members : std::vector<int32_t>())
    members +=
        (members.empty() ? " between ranks " : ", ") + std::to_string(member);
  fail("NCCL is late: nothing moved" + members + " for " +
       std::to_string(std::chrono::duration<double>(since).count())
           .substr(0, 5) +
       " s");
}

/// Peers may still read this GPU's memory: the ranks finish together.
bool Collectives::close(NcclComm comm) const {
  try {
    settle(nccl->ncclCommFinalize(comm), "ncclCommFinalize", comm);
    return nccl->ncclCommDestroy(comm) == NcclSuccess;
  } catch (const Error &) {
    return false;
  }
}

void Collectives::abort() noexcept {
  if (isAborted)
    return;
  isAborted = true;
  // A pending split ends with its parent, and leaves a child.
  for (bool isLeft = true; isLeft;) {
    isLeft = false;
    for (size_t i = made.size(); i-- > 0;)
      if (NcclComm comm = std::exchange(made[i], nullptr)) {
        nccl->ncclCommAbort(comm);
        isLeft = true;
      }
  }
  made.clear();
}
