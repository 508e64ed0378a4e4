// A driver that computes nothing and records every call.
//
// Memory is real (pages of the system, allocated when touched), so data copied
// to the device come back; kernels and products leave memory unchanged. Calls
// that the driver and the libraries would refuse by their manuals are refused:
// a launch with the wrong number of parameters or an address outside any
// allocation, a call that a capture forbids, a product outside the contract
// (LtContract.h).
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_RECORDINGDRIVER_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_RECORDINGDRIVER_H

#include "device/cuda/Driver.h"
#include "device/cuda/LtContract.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace scalify::rt::cuda {

/// Mailboxes between the ranks of a test: (communicator, from, to).
class Fabric {
public:
  using Mail = std::vector<uint8_t>;
  void send(const std::string &box, Mail mail);
  /// Returns nullopt if no mail arrives for a while.
  std::optional<Mail> receive(const std::string &box);

private:
  std::mutex mutex;
  std::condition_variable came;
  std::map<std::string, std::deque<Mail>> boxes;
};

class RecordingDriver : public Driver {
public:
  RecordingDriver();
  ~RecordingDriver() override;

  void label(DevicePtr address, size_t bytes, const std::string &name) override;
  void expect(FunctionHandle function, size_t parameters) const override;
  std::string refusal() const override { return lastRefusal; }
  std::unique_ptr<AttentionLibrary> openAttention() override;
  std::shared_ptr<Nccl> openNccl() override;
  bool isAlone() const override { return !fabric; }
  std::string trace() const override { return lines; }

  // For tests.
  /// The number of GPUs.
  int gpus = 1;
  /// Their compute capability: ten times the major version plus the minor one.
  int capability = 90;
  /// The version that cuBLASLt reports.
  size_t blasVersion = 130000;
  /// Makes the call after the next `count` fail.
  void failAfter(uint64_t count) { failAt = calls + count; }
  uint64_t callCount() const { return calls; }
  void clearTrace() { lines.clear(); }
  /// The number of live allocations, modules, streams and other objects.
  size_t alive() const { return memory.size() + objects.size() + contexts; }
  /// The version that NCCL reports.
  int ncclVersion = 23200;
  /// Connects the recordings of ranks, each a thread: then their exchanges move
  /// memory, and so do copies and fills. Without a fabric a rank is alone.
  std::shared_ptr<Fabric> fabric;
  /// The asynchronous state that communicators report.
  NcclStatus ncclState = NcclSuccess;
  /// The streams have work that does not finish until NCCL aborts.
  bool isStuck = false;
  /// Runs instead of a launched graph's work.
  std::function<void()> onGraphLaunch;
  /// Returns the memory with this label, or null.
  void *find(const std::string &name) const;

private:
  class Attention;
  class Cudnn;
  class RecordedNccl;
  enum class Kind : uint8_t {
    Module,
    Function,
    Stream,
    Event,
    Graph,
    GraphExec,
    Blas,
    Desc,
    Layout,
    Preference,
    Comm
  };
  struct Object {
    Kind kind;
    std::string name;
    Object *owner = nullptr;        // a function's module
    size_t parameters = 0;          // of a function, by the PTX
    size_t expected = 0;            // of a function, by the caller
    std::string text;               // a module's
    std::vector<std::string> nodes; // of a graph
    double time = 0;                // of an event, milliseconds
    bool isRecorded = false;        // of an event
    bool isCaptured = false;        // of a stream; of an event, when recorded
    uint64_t issued = 0;            // to a stream
    std::map<Object *, uint64_t> seen; // work before the next, by stream
    LtProblem product;                 // of a desc; sides have only their types
    const void *chosenFor = nullptr;   // of a desc: the heuristic's bias
    LtSide side;                       // of a layout
    size_t workspace = 0;              // of a preference
    std::array<uint32_t, 4> alignment = {256, 256, 256, 256};
    bool isHost = false;
  };
  struct Block {
    size_t bytes = 0;
    std::string name;
    bool isHost = false;
  };

  void bindDevice();
  void bindMemory();
  void bindCopies();
  void bindModules();
  void bindLaunch();
  void bindStreams();
  void bindEvents();
  void bindCapture();
  void bindGraphs();
  void bindBlasObjects();
  void bindDesc();
  void bindLayout();
  void bindPreference();
  void bindHeuristic();
  void bindMatmul();

  /// Counts a call; true if this call must fail.
  bool fails(const char *call);
  void line(const std::string &text);
  /// Records work on the device: in the graph while a capture is active, which
  /// the stream must be part of.
  Status work(const std::string &text, StreamHandle stream);
  /// Returns " stream=1", or "" for the first stream.
  std::string on(StreamHandle stream) const;
  template <typename Handle> Status make(Handle *out, Kind kind);
  template <typename Handle> Object *get(Handle handle, Kind kind) const;
  template <typename Handle> Status destroy(Handle handle, Kind kind);
  template <typename Handle> BlasStatus blasMake(Handle *out, Kind kind);
  Status take(const char *call, size_t bytes, bool isHost, void **out);
  Status give(const char *call, void *address, bool isHost);
  /// Returns "arena+256", or "" for an address outside any allocation.
  std::string at(DevicePtr address) const;
  std::string at(const void *address) const { return at(onDevice(address)); }
  bool covers(DevicePtr address, size_t bytes) const;
  BlasStatus refuse(const char *call, BlasStatus status,
                    const std::string &reason);
  LtProblem problemOf(MatmulDesc desc, MatrixLayout a, MatrixLayout b,
                      MatrixLayout c, MatrixLayout d) const;

  /// Returns why a buffer of the epilogue cannot be read or stored, or "".
  std::string checkEpilogueBuffers(const Object &desc,
                                   const LtProblem &p) const;

  std::string lines;
  std::string lastRefusal;
  uint64_t calls = 0;
  uint64_t failAt = UINT64_MAX;
  size_t contexts = 0;
  double clock = 0;
  std::map<DevicePtr, Block> memory;
  std::map<DevicePtr, Block> labels;
  std::map<const void *, std::unique_ptr<Object>> objects;
  std::map<Kind, int> made;
  Object *capturing = nullptr; // the graph
  Object *origin = nullptr;    // the stream that began the capture
};

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_RECORDINGDRIVER_H
