#include "loader/Executable.h"
#include "loader/CpuFeatures.h"
#include "loader/Manifest.h"
#include "support/Error.h"

#include <algorithm>
#include <sys/mman.h>

using namespace scalify::rt;

namespace {
// Rarely enough to cost nothing, often enough that an interrupt feels prompt.
constexpr std::chrono::milliseconds pollInterval{50};

bool overlap(const void *a, int64_t aSize, const void *b, int64_t bSize) {
  auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y + static_cast<uintptr_t>(bSize) &&
         y < x + static_cast<uintptr_t>(aSize);
}
} // namespace

/// Functions run one after another and leave nothing in the arena.
static int64_t mostArenaBytes(const Program &plan) {
  int64_t bytes = plan.arenaBytes;
  for (const Function &function : plan.functions)
    bytes = std::max(bytes, plan.interfaceOf(function).arenaBytes);
  return bytes;
}

PageMemory::PageMemory(int64_t size) : length(static_cast<size_t>(size)) {
  if (length == 0)
    return;
  void *map = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    throw Error(SCALIFY_RT_INTERNAL, "cannot allocate the arena of " +
                                         std::to_string(size) + " bytes");
  // Temporaries are streamed through: huge pages spare TLB misses. Refusal of
  // the advice does no harm.
  (void)madvise(map, length, MADV_HUGEPAGE);
  bytes = static_cast<uint8_t *>(map);
}

PageMemory::~PageMemory() {
  if (bytes)
    munmap(bytes, length);
}

Executable::Executable(Image file, std::unique_ptr<Device> device)
    : image(std::move(file)),
      plan(parseManifest(image.manifest(), int64_t(image.size()))),
      dev(std::move(device)), arena(mostArenaBytes(plan)) {
  if (dev->needsKernels())
    loadKernels();
  size_t mostBuffers = 0, mostCounters = 0, mostBound = 0;
  for (const Function &function : plan.functions) {
    firstRow.push_back(rows.size());
    mostBound = std::max(mostBound, plan.interfaceOf(function).buffers.size());
    for (const Command &command : function.commands) {
      dev->prepare(command);
      mostBuffers = std::max(mostBuffers, command.buffers.size());
      mostCounters = std::max(mostCounters, command.counters.size());
      rows.push_back({&function, &command, {}});
    }
  }
  kernelArgs.resize(mostBuffers);
  kernelCounts.resize(counterWords * mostCounters);
  counts.resize(counterWords * plan.counters.size());
  bound.resize(mostBound);
}

void Executable::loadKernels() {
  bool any = false;
  for (const Function &function : plan.functions)
    for (const Command &command : function.commands)
      any |= command.op == Command::Op::Kernel;
  if (!any)
    return;
  requireCpu(plan.mcpu);
  kernels = SharedObject(image.data() + plan.kernels.offset,
                         static_cast<size_t>(plan.kernels.size));
  for (Function &function : plan.functions)
    for (Command &command : function.commands)
      if (command.op == Command::Op::Kernel)
        command.kernel = kernels.kernel(command.symbol);
}

void Executable::bind(const Interface &interface, void *const *args,
                      int32_t numArgs, void *const *results,
                      int32_t numResults) {
  if (numArgs != int64_t(interface.args.size()) ||
      numResults != int64_t(interface.results.size()))
    badArgument("the function takes " + std::to_string(interface.args.size()) +
                " arguments and gives " +
                std::to_string(interface.results.size()) + " results; got " +
                std::to_string(numArgs) + " and " + std::to_string(numResults));
  for (int32_t i = 0; i < numArgs; ++i) {
    const Argument &arg = interface.args[i];
    if (!args[i] && arg.type.bytes)
      badArgument("argument '" + arg.name + "' is null");
    if (reinterpret_cast<uintptr_t>(args[i]) % byteWidth(arg.type.dtype))
      badArgument("argument '" + arg.name + "' is not aligned to its " +
                  name(arg.type.dtype) + " elements");
    // A donated argument is written to while the others are still read.
    for (int32_t j = 0; arg.aliasResult >= 0 && j < numArgs; ++j)
      if (j != i && overlap(args[i], arg.type.bytes, args[j],
                            interface.args[j].type.bytes))
        badArgument("donated argument '" + arg.name + "' overlaps argument '" +
                    interface.args[j].name + "'");
  }
  for (int32_t i = 0; i < numResults; ++i) {
    const Result &result = interface.results[i];
    if (result.aliasArg >= 0) {
      if (results[i] && results[i] != args[result.aliasArg])
        badArgument("result '" + result.name +
                    "' is written to its donated argument; pass null or that "
                    "argument's pointer");
    } else if (!results[i] && result.type.bytes) {
      badArgument("result '" + result.name + "' is null");
    } else if (reinterpret_cast<uintptr_t>(results[i]) %
               byteWidth(result.type.dtype)) {
      badArgument("result '" + result.name + "' is not aligned to its " +
                  name(result.type.dtype) + " elements");
    }
  }
  for (size_t i = 0; i < interface.buffers.size(); ++i) {
    const Buffer &buffer = interface.buffers[i];
    void *base = nullptr;
    switch (buffer.kind) {
    case Buffer::Kind::Arg:
      base = args[buffer.index];
      break;
    case Buffer::Kind::Result:
      base = interface.results[buffer.index].aliasArg >= 0
                 ? args[interface.results[buffer.index].aliasArg]
                 : results[buffer.index];
      break;
    case Buffer::Kind::Temp:
      base = arena.data();
      break;
    case Buffer::Kind::Const:
      base = const_cast<uint8_t *>(image.data()) + plan.constants.offset;
      break;
    }
    bound[i] = static_cast<uint8_t *>(base) + buffer.offset;
  }
}

void Executable::execute(const Command &command) {
  for (size_t i = 0; i < command.buffers.size(); ++i)
    kernelArgs[i] = bound[command.buffers[i]];
  void **at = kernelArgs.data();
  auto element = [&](int operand) {
    return static_cast<float *>(at[operand]) + command.gemmOffsets[operand];
  };
  switch (command.op) {
  case Command::Op::Kernel:
    std::fill_n(kernelCounts.begin(), counterWords * command.counters.size(),
                0);
    dev->kernel(command, at, kernelCounts.data());
    for (size_t i = 0; i < command.counters.size(); ++i)
      for (size_t word = 0; word < counterWords; ++word)
        counts[counterWords * static_cast<size_t>(command.counters[i]) +
               word] += kernelCounts[counterWords * i + word];
    return;
  case Command::Op::Gemm:
    return dev->gemm(command, element(0), element(1), element(2));
  case Command::Op::Copy:
    return dev->copy(command, at[0], at[1]);
  case Command::Op::Fill:
    return dev->fill(command, at[0]);
  }
}

void Executable::pollIfDue(Clock::time_point now) {
  if (now - lastPoll < pollInterval)
    return;
  lastPoll = now;
  if (poll(pollContext))
    throw Error(SCALIFY_RT_INTERRUPTED, "the run was interrupted");
}

void Executable::run(const std::string &functionName, void *const *args,
                     int32_t numArgs, void *const *results,
                     int32_t numResults) {
  std::unique_lock<std::mutex> lock = lockForUse();
  const Function *function = plan.find(functionName);
  if (!function)
    badArgument("the artefact has no function '" + functionName + "'");
  bind(plan.interfaceOf(*function), args, numArgs, results, numResults);
  // @rescale reads what the step has counted.
  if (function->counts())
    std::fill(counts.begin(), counts.end(), 0);
  ProfileRow *row =
      rows.data() + firstRow[size_t(function - plan.functions.data())];
  const bool timed = profiling || poll;
  Clock::time_point start = Clock::now();
  lastPoll = start;
  for (const Command &command : function->commands) {
    execute(command);
    if (timed) {
      Clock::time_point end = Clock::now();
      row->time.calls += profiling;
      row->time.nanoseconds += profiling ? uint64_t((end - start).count()) : 0;
      start = end;
      if (poll)
        pollIfDue(end);
    }
    ++row;
  }
}

std::unique_lock<std::mutex> Executable::lockForUse() {
  std::unique_lock<std::mutex> lock(inUse, std::try_to_lock);
  if (!lock)
    throw Error(SCALIFY_RT_BUSY,
                "the executable is running on another thread; load it once "
                "per thread that runs it");
  return lock;
}

void Executable::setPoll(scalify_rt_poll callback, void *context) {
  std::unique_lock<std::mutex> lock = lockForUse();
  poll = callback;
  pollContext = context;
}

void Executable::setThreads(int threads) {
  std::unique_lock<std::mutex> lock = lockForUse();
  dev->setThreads(threads);
}

void Executable::setProfiling(bool on) {
  std::unique_lock<std::mutex> lock = lockForUse();
  profiling = on;
  if (on)
    for (ProfileRow &row : rows)
      row.time = {};
}
