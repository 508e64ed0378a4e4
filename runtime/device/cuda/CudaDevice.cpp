#include "device/cuda/CudaDevice.h"
#include "device/cuda/AttentionContract.h"
#include "device/cuda/Collectives.h"
#include "device/cuda/CudaGemm.h"
#include "device/cuda/Graphs.h"
#include "device/cuda/Module.h"
#include "device/cuda/RecordingDriver.h"
#include "device/cuda/Staging.h"
#include "device/cuda/Timing.h"
#include "loader/Image.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
class CudaDevice : public Device {
public:
  CudaDevice(std::shared_ptr<Driver> driver, int ordinal,
             const Program &program)
      : session(std::move(driver), ordinal, program), number(ordinal),
        stream(session.makeStream()) {}
  ~CudaDevice() override;

  void load(Program &program, const Image &image) override;
  void connect(const Program &program, Communicator *comm,
               uint32_t rank) override;
  void *arena() const override { return pointer(arenaMemory.get()); }
  const void *constants() const override {
    return pointer(constantMemory.get());
  }
  const void *rankNumber(const uint32_t *) const override {
    return pointer(rankMemory.get());
  }

  bool begin(StepCall &call) override;
  void finish(StepCall &call, uint64_t *counts) override;
  void abandon() noexcept override;
  bool isAsynchronous() const override { return true; }
  std::vector<CommandTime> takeTimes() override { return timing.take(); }
  bool goesOn(const Command &loop, const void *flag, int64_t trip) override;
  void beginIteration(const Function &body) override { fork(body); }
  void endIteration(const Function &body) override { join(body); }

  void kernel(const Command &command, void *const *buffers,
              uint64_t *counters) override;
  void gemm(const Command &command, void *const *buffers) override;
  void attention(const Command &command, void *const *buffers) override;
  void collective(const Command &command, Communicator *, const void *src,
                  void *dst) override;
  void copy(const Command &command, const void *src, void *dst) override;
  void fill(const Command &command, void *dst) override;
  void record(const Command &command) override;
  void wait(const Command &command) override;

  void *allocate(size_t bytes) override;
  void release(void *memory) override;
  void copyIn(void *dst, const void *src, size_t bytes) override;
  void copyOut(void *dst, const void *src, size_t bytes) override;
  void copyWithin(void *dst, const void *src, size_t bytes) override;
  void synchronizeAll() override;
  void *stepStream() const override { return stream.get(); }

  bool isReal() const override { return !session.driver->isAlone(); }
  std::string deviceName() const override { return session.deviceName(); }
  int32_t deviceIndex() const override { return number; }
  std::string trace() const override { return session.driver->trace(); }

protected:
  void setBytes(void *dst, size_t bytes, uint8_t byte) override;

private:
  void loadCommands(const Program &program);
  std::unique_ptr<AttentionPlan> planAttention(const Command &command);
  void startTime(const Command &command);
  void zeroCounters(const Function &function);
  void addCounters(const Function &function, uint64_t *counts) const;
  void synchronize();
  void makeStreams(const Program &program);
  void fork(const Function &function) const;
  void join(const Function &function) const;
  void record(const Owned<EventHandle> &event, StreamHandle on) const;
  void wait(const Owned<EventHandle> &event, StreamHandle on) const;
  /// True if commands run one after another: each is waited for or timed.
  bool isSerial() const { return timing.isOn() || isBlocking; }
  StreamHandle streamOf(const Command &command) const {
    return command.stream == 0 || isSerial()
               ? stream.get()
               : sides[size_t(command.stream) - 1].get();
  }
  /// The words that a function and its loops count into.
  struct Range {
    size_t begin = 0, end = 0;
    size_t bytes() const { return (end - begin) * sizeof(uint64_t); }
  };
  Range countersOf(const Function &function) const;

  /// Issues one command: errors name it, and it is timed if requested.
  template <typename Fn> void issue(const Command &command, Fn fn) {
    session.command = &command;
    if (timing.isOn())
      startTime(command);
    fn(*session.driver);
    if (isBlocking)
      synchronize();
    session.command = nullptr;
  }

  /// A graph has a node for each command of each iteration.
  static constexpr double mostCaptured = 1 << 17;

  Session session;
  int32_t number; // of the GPU
  Owned<StreamHandle> stream;
  std::vector<Owned<StreamHandle>> sides; // the other streams of plans
  Owned<EventHandle> forked;
  std::vector<Owned<EventHandle>> joined; // one per side stream
  std::map<size_t, size_t> eventAt;       // by the index of record and wait
  std::vector<Owned<EventHandle>> planEvents;
  DeviceBlock arenaMemory, constantMemory, counterMemory, rankMemory;
  HostBlock counterCopy;
  CallerMemory callers;
  Module module;
  /// By stream: concurrent products need separate workspaces.
  std::map<int32_t, LtContext> blas;
  std::vector<std::unique_ptr<CudaGemm>> gemms; // by command; null for others
  std::unique_ptr<AttentionLibrary> attentionLibrary;
  std::vector<std::unique_ptr<AttentionPlan>> attentions; // also by command
  DeviceBlock attentionWorkspace;
  std::unique_ptr<Collectives> collectives; // if the program has any
  std::vector<size_t> counterAt; // by command, in words from counterMemory
  std::vector<const Function *> functions;
  std::map<const Function *, Staging> staging;
  std::map<const Function *, Graphs> graphs;
  Timing timing;
  HostBlock flagCopy;                // of a loop's condition
  std::vector<DevicePtr> parameters; // scratch of the kernel being launched
  std::vector<void *> parameterPlaces;
  /// The way of the running step's commands to the stream.
  enum class Mode : uint8_t { Direct, Capture, Replay } mode = Mode::Direct;
  /// Waits after every command, so that an error names the one that failed.
  bool isBlocking = std::getenv("SCALIFY_CUDA_BLOCKING") != nullptr;
};

CudaDevice::~CudaDevice() {
  try {
    session.makeCurrent();
  } catch (...) {
    return; // the context is gone, and everything in it
  }
}

void CudaDevice::load(Program &program, const Image &image) {
  session.makeCurrent();
  arenaMemory = session.allocate(size_t(program.maxArenaBytes()), "arena");
  constantMemory = session.allocate(size_t(program.constants.size), "const");
  if (program.constants.size)
    copyIn(pointer(constantMemory.get()),
           image.data() + program.constants.offset,
           size_t(program.constants.size));
  module = Module(session, program, image);
  makeStreams(program);
  loadCommands(program);
}

void CudaDevice::connect(const Program &program, Communicator *comm,
                         uint32_t rank) {
  bool hasCollectives = false, hasNumber = false;
  for (const Function &function : program.functions) {
    hasCollectives |= function.isExchanging;
    for (const Buffer &buffer : program.interfaceOf(function).buffers)
      hasNumber |= buffer.kind == Buffer::Kind::Rank;
  }
  if (hasNumber) {
    rankMemory = session.allocate(sizeof(rank), "rank");
    copyIn(pointer(rankMemory.get()), &rank, sizeof(rank));
  }
  if (hasCollectives)
    collectives =
        std::make_unique<Collectives>(session, program, comm, int32_t(rank));
}

void CudaDevice::loadCommands(const Program &program) {
  size_t words = 0, mostBuffers = 0, mostWorkspace = 0;
  bool hasOpenLoop = false;
  for (const Function &function : program.functions) {
    functions.push_back(&function);
    hasOpenLoop |= function.hasOpenLoop;
    for (const Command &command : function.commands) {
      counterAt.push_back(words);
      words += command.counters.size() * counterWords;
      mostBuffers = std::max(mostBuffers, command.buffers.size());
      gemms.emplace_back();
      attentions.emplace_back();
      session.command = &command;
      if (command.op == Command::Op::Gemm) {
        auto &context = blas.try_emplace(command.stream, session, stream.get())
                            .first->second;
        gemms.back() = std::make_unique<CudaGemm>(context, command);
      } else if (command.op == Command::Op::Attention) {
        attentions.back() = planAttention(command);
        mostWorkspace =
            std::max(mostWorkspace, attentions.back()->workspaceBytes());
      }
      session.command = nullptr;
    }
    staging[&function];
    graphs[&function];
  }
  if (attentionLibrary)
    attentionWorkspace = session.allocate(mostWorkspace, "attention workspace");
  counterAt.push_back(words);
  counterMemory = session.allocate(words * sizeof(uint64_t), "counters");
  counterCopy = session.allocateHost(words * sizeof(uint64_t));
  if (hasOpenLoop)
    flagCopy = session.allocateHost(1);
  parameters.resize(mostBuffers + 1);
  for (DevicePtr &parameter : parameters)
    parameterPlaces.push_back(&parameter);
}

std::unique_ptr<AttentionPlan>
CudaDevice::planAttention(const Command &command) {
  if (!attentionLibrary)
    attentionLibrary = session.driver->openAttention();
  std::string why;
  auto made = attentionLibrary->plan(command.attention, why);
  if (!made)
    session.refuse("cuDNN's plan",
                   why + "; the attention is " + describe(command.attention));
  return made;
}

/// The functions between those in the order of the program are included.
CudaDevice::Range CudaDevice::countersOf(const Function &function) const {
  Range range = {counterAt.back(), 0};
  auto add = [&](const Function &one) {
    if (one.commands.empty())
      return;
    range.begin = std::min(range.begin, counterAt[one.commands.front().index]);
    range.end = std::max(range.end, counterAt[one.commands.back().index + 1]);
  };
  add(function);
  for (int32_t callee : function.callees)
    add(*functions[size_t(callee)]);
  range.begin = std::min(range.begin, range.end);
  return range;
}

void CudaDevice::startTime(const Command &command) {
  if (timing.isFull()) {
    timing.end(session, stream.get());
    synchronize();
    timing.read(session);
  }
  timing.start(session, stream.get(), command.index);
}

bool CudaDevice::begin(StepCall &call) {
  session.makeCurrent();
  staging[call.function].begin(session, callers, stream.get(), call);
  // Before the other streams start, and outside of graphs.
  fillUnwritten(call);
  timing.begin(call.isTimed);
  Graphs &known = graphs[call.function];
  mode = Mode::Direct;
  // Ranks would have to capture and replay the same steps, but whether a rank
  // does depends on the addresses of its own arguments. The host reads the
  // condition of a loop whose length is data, which a capture forbids.
  const bool isCaptured = !call.function->isExchanging &&
                          !call.function->hasOpenLoop &&
                          call.function->numIssued <= mostCaptured;
  if (collectives)
    collectives->begin(call);
  if (isCaptured && !isSerial() && known.isWarm()) {
    mode = known.find(call) ? Mode::Replay : Mode::Capture;
    if (mode == Mode::Replay)
      return false;
    known.begin(session, stream.get());
  }
  zeroCounters(*call.function);
  fork(*call.function);
  return true;
}

void CudaDevice::makeStreams(const Program &program) {
  int32_t streams = 1;
  size_t count = 0;
  for (const Function &function : program.functions) {
    streams = std::max(streams, function.streams());
    // A loop's events are not those of the function around it.
    for (const Command &command : function.commands)
      if (command.op == Command::Op::Record || command.op == Command::Op::Wait)
        eventAt[command.index] = count + size_t(command.event);
    count += size_t(function.events());
  }
  for (int32_t i = 1; i < streams; ++i) {
    sides.push_back(session.makeStream());
    joined.push_back(session.makeEvent(UntimedEvent));
  }
  if (!sides.empty())
    forked = session.makeEvent(UntimedEvent);
  while (planEvents.size() < count)
    planEvents.push_back(session.makeEvent(UntimedEvent));
}

void CudaDevice::record(const Owned<EventHandle> &event,
                        StreamHandle on) const {
  session.check(session.driver->cuEventRecord(event.get(), on),
                "cuEventRecord");
}

void CudaDevice::wait(const Owned<EventHandle> &event, StreamHandle on) const {
  session.check(session.driver->cuStreamWaitEvent(on, event.get(), 0),
                "cuStreamWaitEvent");
}

/// Starts the other streams after the work that precedes the step, which also
/// makes them part of its capture.
void CudaDevice::fork(const Function &function) const {
  auto count = size_t(function.streams()) - 1;
  if (count == 0 || isSerial())
    return;
  record(forked, stream.get());
  for (size_t i = 0; i < count; ++i)
    wait(forked, sides[i].get());
}

void CudaDevice::join(const Function &function) const {
  auto count = size_t(function.streams()) - 1;
  for (size_t i = 0; i < count && !isSerial(); ++i) {
    record(joined[i], sides[i].get());
    wait(joined[i], stream.get());
  }
}

void CudaDevice::zeroCounters(const Function &function) {
  Range range = countersOf(function);
  if (range.bytes())
    session.check(session.driver->cuMemsetD8Async(
                      counterMemory.get() + range.begin * sizeof(uint64_t), 0,
                      range.bytes(), stream.get()),
                  "cuMemsetD8Async");
}

void CudaDevice::finish(StepCall &call, uint64_t *counts) {
  const Driver &driver = *session.driver;
  Graphs &known = graphs[call.function];
  timing.end(session, stream.get());
  if (mode != Mode::Replay)
    join(*call.function);
  if (mode == Mode::Capture)
    known.finish(session, stream.get(), call);
  if (mode != Mode::Direct)
    known.launch(session, stream.get());
  // Before the copies, in which the driver may block forever.
  if (call.function->isExchanging)
    collectives->finish(stream.get());
  Range range = countersOf(*call.function);
  if (range.bytes()) {
    const size_t at = range.begin * sizeof(uint64_t);
    session.check(driver.cuMemcpyDtoHAsync_v2(
                      static_cast<uint8_t *>(counterCopy.get()) + at,
                      counterMemory.get() + at, range.bytes(), stream.get()),
                  "cuMemcpyDtoHAsync");
  }
  staging[call.function].finish(session, stream.get(), call);
  synchronize();
  timing.read(session);
  known.setWarm();
  addCounters(*call.function, counts);
  for (int32_t callee : call.function->callees)
    addCounters(*functions[size_t(callee)], counts);
}

void CudaDevice::abandon() noexcept {
  session.command = nullptr;
  if (collectives)
    collectives->abort();
  for (auto &[function, known] : graphs)
    known.abandon(session, stream.get());
  // Memory that a copy still writes must not be read or freed.
  session.driver->cuStreamSynchronize(stream.get());
  for (const Owned<StreamHandle> &side : sides)
    session.driver->cuStreamSynchronize(side.get());
}

void CudaDevice::synchronize() {
  if (collectives)
    collectives->await(stream.get());
  session.check(session.driver->cuStreamSynchronize(stream.get()),
                "cuStreamSynchronize",
                isBlocking ? ""
                           : "to see which command failed, set "
                             "SCALIFY_CUDA_BLOCKING=1");
}

void CudaDevice::addCounters(const Function &function, uint64_t *counts) const {
  const auto *words = static_cast<const uint64_t *>(counterCopy.get());
  for (const Command &command : function.commands)
    for (size_t i = 0; i < command.counters.size(); ++i)
      for (size_t word = 0; word < counterWords; ++word)
        counts[counterWords * size_t(command.counters[i]) + word] +=
            words[counterAt[command.index] + counterWords * i + word];
}

bool CudaDevice::goesOn(const Command &loop, const void *flag, int64_t trip) {
  session.command = &loop;
  session.check(session.driver->cuMemcpyDtoHAsync_v2(
                    flagCopy.get(), onDevice(flag), 1, stream.get()),
                "cuMemcpyDtoHAsync");
  synchronize();
  session.command = nullptr;
  return isReal() ? *static_cast<const uint8_t *>(flagCopy.get()) != 0
                  : trip == 0;
}

void CudaDevice::kernel(const Command &command, void *const *buffers,
                        uint64_t *) {
  issue(command, [&](const Driver &driver) {
    if (command.rows == 0)
      return;
    size_t count = command.buffers.size();
    for (size_t i = 0; i < count; ++i)
      parameters[i] = onDevice(buffers[i]);
    parameters[count] =
        command.counters.empty()
            ? 0
            : counterMemory.get() + counterAt[command.index] * sizeof(uint64_t);
    // Kernels loop over the rows that the grid does not cover.
    auto grid = unsigned(std::min<int64_t>(command.rows, INT32_MAX));
    session.check(driver.cuLaunchKernel(module.function(command), grid, 1, 1,
                                        unsigned(command.threads), 1, 1, 0,
                                        streamOf(command),
                                        parameterPlaces.data(), nullptr),
                  "cuLaunchKernel");
  });
}

void CudaDevice::gemm(const Command &command, void *const *buffers) {
  issue(command, [&](const Driver &) {
    gemms[command.index]->issue(blas.at(command.stream), command, buffers,
                                streamOf(command));
  });
}

void CudaDevice::attention(const Command &command, void *const *buffers) {
  issue(command, [&](const Driver &) {
    std::string why = attentions[command.index]->issue(
        buffers, pointer(attentionWorkspace.get()), stream.get());
    if (!why.empty())
      session.refuse("cudnnExecute", why);
  });
}

void CudaDevice::collective(const Command &command, Communicator *,
                            const void *src, void *dst) {
  issue(command, [&](const Driver &) {
    collectives->issue(command, src, dst, streamOf(command));
  });
}

void CudaDevice::copy(const Command &command, const void *src, void *dst) {
  issue(command, [&](const Driver &driver) {
    if (src != dst && command.bytes)
      session.check(driver.cuMemcpyDtoDAsync_v2(onDevice(dst), onDevice(src),
                                                size_t(command.bytes),
                                                streamOf(command)),
                    "cuMemcpyDtoDAsync");
  });
}

void CudaDevice::fill(const Command &command, void *dst) {
  issue(command, [&](const Driver &driver) {
    if (command.bytes)
      session.check(driver.cuMemsetD8Async(onDevice(dst), command.fillByte,
                                           size_t(command.bytes),
                                           streamOf(command)),
                    "cuMemsetD8Async");
  });
}

void CudaDevice::setBytes(void *dst, size_t bytes, uint8_t byte) {
  session.check(
      session.driver->cuMemsetD8Async(onDevice(dst), byte, bytes, stream.get()),
      "cuMemsetD8Async");
}

void CudaDevice::record(const Command &command) {
  issue(command, [&](const Driver &) {
    if (!isSerial())
      record(planEvents[eventAt.at(command.index)], streamOf(command));
  });
}

void CudaDevice::wait(const Command &command) {
  issue(command, [&](const Driver &) {
    if (!isSerial())
      wait(planEvents[eventAt.at(command.index)], streamOf(command));
  });
}

void *CudaDevice::allocate(size_t bytes) {
  session.makeCurrent();
  return callers.allocate(session, bytes);
}

void CudaDevice::release(void *memory) {
  session.makeCurrent();
  callers.release(memory);
}

void CudaDevice::copyIn(void *dst, const void *src, size_t bytes) {
  if (!bytes)
    return;
  session.makeCurrent();
  session.check(session.driver->cuMemcpyHtoDAsync_v2(onDevice(dst), src, bytes,
                                                     stream.get()),
                "cuMemcpyHtoDAsync");
  synchronize();
}

void CudaDevice::copyOut(void *dst, const void *src, size_t bytes) {
  if (!bytes)
    return;
  session.makeCurrent();
  session.check(session.driver->cuMemcpyDtoHAsync_v2(dst, onDevice(src), bytes,
                                                     stream.get()),
                "cuMemcpyDtoHAsync");
  synchronize();
}

void CudaDevice::copyWithin(void *dst, const void *src, size_t bytes) {
  if (!bytes)
    return;
  session.makeCurrent();
  // The driver knows by an address which memory it is in.
  session.check(session.driver->cuMemcpyAsync(onDevice(dst), onDevice(src),
                                              bytes, stream.get()),
                "cuMemcpyAsync");
  synchronize();
}

void CudaDevice::synchronizeAll() {
  session.makeCurrent();
  session.check(session.driver->cuCtxSynchronize(), "cuCtxSynchronize");
}
} // namespace

std::unique_ptr<Device> cuda::makeCudaDevice(std::shared_ptr<Driver> driver,
                                             int ordinal,
                                             const Program &program) {
  return std::make_unique<CudaDevice>(std::move(driver), ordinal, program);
}

std::unique_ptr<Device> cuda::makeRecordingDevice(const Program &program) {
  auto driver = std::make_shared<RecordingDriver>();
  driver->capability = program.capability;
  return makeCudaDevice(driver, 0, program);
}
