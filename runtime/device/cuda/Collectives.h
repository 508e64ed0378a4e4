// Collectives between the GPUs of several ranks: by NCCL, on the streams of the
// plan, and watched, so that a failing peer ends the step.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_COLLECTIVES_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_COLLECTIVES_H

#include "device/Device.h"
#include "device/cuda/Nccl.h"
#include "device/cuda/Session.h"

#include <chrono>
#include <map>

namespace scalify::rt::cuda {

class Collectives {
public:
  /// Creates the communicators that the program's collectives need, together
  /// with the other ranks: one for each set of groups and direction. Groups
  /// consist of ranks of a pipeline's stage; each stage has groups of its own
  /// in a set. `host` connects the ranks meanwhile; null for a single rank.
  Collectives(const Session &session, const Program &program,
              Communicator *host, int32_t rank);
  ~Collectives();
  Collectives(const Collectives &) = delete;
  Collectives &operator=(const Collectives &) = delete;

  void begin(const StepCall &call);
  void issue(const Command &command, const void *source, void *destination,
             StreamHandle stream);
  /// Returns when all ranks have issued the step and this rank's step is done.
  void finish(StreamHandle stream);
  /// Returns when the stream's work is done. Throws an Error that names the
  /// unfinished collective if NCCL has failed or times out.
  void await(StreamHandle stream);
  /// Ends work that waits for peers, on this GPU too. Nothing runs afterwards.
  void abort() noexcept;

private:
  /// Gathers and reductions wait for different things: each direction has its
  /// own communicators.
  enum class Direction : uint8_t { Gather, Reduce };
  using Groups = std::vector<std::vector<int32_t>>;
  using Key = std::pair<Groups, Direction>;
  using Clock = std::chrono::steady_clock;

  void connect(const Program &program);
  std::vector<Key> agree(std::vector<Key> keys) const;
  void makeCommunicators(NcclId id, const std::vector<Key> &keys);
  void makeScratch(const Program &program);
  NcclId shareId();
  Key keyOf(const Collective &collective, const Groups &groups) const;
  void count(int64_t bytes) const;
  void gather(const Collective &what, NcclComm comm, const void *source,
              void *destination, StreamHandle stream) const;
  void join(const Collective &what, NcclComm comm, const void *source,
            void *destination, StreamHandle stream) const;
  void exchange(const Collective &what, NcclComm comm, const void *source,
                void *destination, StreamHandle stream);
  const void *apart(const void *source, const void *destination, size_t bytes,
                    StreamHandle stream) const;
  void check(NcclStatus status, const char *call, NcclComm comm) const;
  void settle(NcclStatus status, const char *call, NcclComm comm) const;
  void waitForSplit(NcclStatus status, NcclComm &child) const;
  void pauseSince(Clock::time_point start) const;
  bool close(NcclComm comm) const;
  void checkAll();
  void poll() const;
  std::string where() const;
  [[noreturn]] void fail(const std::string &text) const;
  [[noreturn]] void late(Clock::duration since) const;

  const Session &session;
  std::shared_ptr<Nccl> nccl;
  Communicator *host;
  int32_t rank, ranks, stageRanks;
  double seconds;
  NcclComm world = nullptr;
  std::vector<NcclComm> made;      // the world, then one for each key
  std::map<size_t, size_t> routes; // number of the key, by the command's index
  /// Of the collectives of a step in their order; a loop's are many.
  std::vector<Owned<EventHandle>> events;
  DeviceBlock scratch;

  // Of the running step.
  struct Issued {
    const Command *command;
    EventHandle event;
    StreamHandle stream;
  };
  std::vector<Issued> issued;
  size_t numDone = 0;
  uint64_t step = 0;
  scalify_rt_poll callback = nullptr;
  void *context = nullptr;
  mutable Clock::time_point lastPoll;
  const Collective *current = nullptr; // for errors
  bool isAborted = false;
};

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_COLLECTIVES_H
