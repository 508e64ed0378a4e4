// A GPU that computes nothing and writes down every call.
//
// Memory is real (pages of the system, taken when touched), so what is copied
// to the device comes back; kernels and products leave it as it is. What the
// driver and the libraries would refuse by their manuals is refused: a launch
// with the wrong number of parameters or an address that is nobody's, a call
// that a capture does not allow, a product outside the contract (LtContract.h).
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
  /// Nothing where none comes for a while.
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
  /// How many GPUs there are.
  int gpus = 1;
  /// What cuBLASLt says that it is.
  size_t blasVersion = 130000;
  /// Makes the call after the next `count` fail.
  void failAfter(uint64_t count) { failAt = calls + count; }
  uint64_t callCount() const { return calls; }
  void clearTrace() { lines.clear(); }
  /// Memory, modules, streams and whatever else has not been given back.
  size_t alive() const { return memory.size() + objects.size() + contexts; }
  /// What NCCL says that it is.
  int ncclVersion = 23200;
  /// Where recordings of ranks, each a thread, meet; their exchanges move the
  /// memory then, and so do copies and fills. Without one a rank is alone.
  std::shared_ptr<Fabric> fabric;
  /// What communicators say of themselves beside a call.
  NcclStatus ncclState = NcclSuccess;
  /// The streams have work that does not end, until NCCL aborts.
  bool isStuck = false;
  /// Runs in place of what a launched graph would compute.
  std::function<void()> onGraphLaunch;
  /// The memory that carries this label, or null.
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
    size_t parameters = 0;          // of a function, by the text
    size_t expected = 0;            // of a function, by the caller
    std::string text;               // a module's
    std::vector<std::string> nodes; // of a graph
    double time = 0;                // of an event, milliseconds
    bool isRecorded = false;        // of an event
    bool isCaptured = false;        // of a stream; of an event, when recorded
    uint64_t issued = 0;            // to a stream
    std::map<Object *, uint64_t> seen; // of streams, before what comes next
    LtProblem product;                 // of a desc; sides hold their types only
    const void *chosenFor = nullptr;   // of a desc: the bias, when asked
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

  /// Counts a call; true if this one is to fail.
  bool fails(const char *call);
  void line(const std::string &text);
  /// What happens on the device: into the graph while one is captured, which
  /// the stream must be part of.
  Status work(const std::string &text, StreamHandle stream);
  /// " stream=1"; nothing of the first.
  std::string on(StreamHandle stream) const;
  template <typename Handle> Status make(Handle *out, Kind kind);
  template <typename Handle> Object *get(Handle handle, Kind kind) const;
  template <typename Handle> Status destroy(Handle handle, Kind kind);
  template <typename Handle> BlasStatus blasMake(Handle *out, Kind kind);
  Status take(const char *call, size_t bytes, bool isHost, void **out);
  Status give(const char *call, void *address, bool isHost);
  /// "arena+256"; empty for an address that is nobody's.
  std::string at(DevicePtr address) const;
  std::string at(const void *address) const { return at(onDevice(address)); }
  bool covers(DevicePtr address, size_t bytes) const;
  BlasStatus refuse(const char *call, BlasStatus status,
                    const std::string &reason);
  LtProblem problemOf(MatmulDesc desc, MatrixLayout a, MatrixLayout b,
                      MatrixLayout c, MatrixLayout d) const;

  /// Why what is behind the product cannot be read or stored, or "".
  std::string behindViolation(const Object &desc, const LtProblem &p) const;

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
  Object *origin = nullptr;    // the stream that began it
};

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_RECORDINGDRIVER_H
