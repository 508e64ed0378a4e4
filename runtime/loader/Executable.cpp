#include "loader/Executable.h"
#include "loader/Agreement.h"
#include "loader/CollectiveReader.h"
#include "loader/Manifest.h"
#include "support/Error.h"
#include "support/FloatControl.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>

using namespace scalify::rt;

namespace {
// Rare enough to cost nothing, frequent enough for a prompt interrupt.
constexpr std::chrono::milliseconds pollInterval{50};

bool overlap(const void *a, int64_t aSize, const void *b, int64_t bSize) {
  auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y + static_cast<uintptr_t>(bSize) &&
         y < x + static_cast<uintptr_t>(aSize);
}

/// Returns a byte that makes a NaN in every format, or a small number in most.
std::optional<uint8_t> chooseFiller() {
  constexpr uint8_t nan = 0xff, number = 0xa5;
  const char *chosen = std::getenv("SCALIFY_FILL");
  const std::string name = chosen ? chosen : "";
  if (name.empty())
    return std::nullopt;
  if (name != "nan" && name != "pattern")
    badArgument("SCALIFY_FILL must be 'nan' or 'pattern', not '" + name + "'");
  return name == "nan" ? nan : number;
}
} // namespace

Executable::Executable(Image file, const DeviceMaker &makeDevice,
                       Communicator *communicator)
    : image(std::move(file)),
      plan(parseManifest(image.manifest(), int64_t(image.size()))),
      dev(makeDevice(plan)), comm(communicator) {
  joinRanks();
  dev->load(plan, image);
  connectRanks();
  size_t mostBuffers = 0, mostCounters = 0;
  size_t mostArgs = 0, mostResults = 0;
  for (const Function &function : plan.functions) {
    const Interface &interface = plan.interfaceOf(function);
    firstRow.push_back(rows.size());
    bound.emplace_back(interface.buffers.size());
    loopArgs.emplace_back(interface.args.size());
    mostArgs = std::max(mostArgs, interface.args.size());
    mostResults = std::max(mostResults, interface.results.size());
    function.forEachGroup([&](const Command *first, size_t count) {
      size_t buffers = 0, counters = 0;
      for (size_t i = 0; i < count; ++i) {
        buffers += first[i].buffers.size();
        counters += first[i].counters.size();
        rows.push_back({&function, first + i, {}});
      }
      mostBuffers = std::max(mostBuffers, buffers);
      mostCounters = std::max(mostCounters, counters);
    });
  }
  kernelArgs.resize(mostBuffers);
  kernelCounts.resize(counterWords * mostCounters);
  counts.resize(counterWords * plan.counters.size());
  scalesBefore.resize(plan.counters.size());
  dynamicElements.resize(plan.counters.size());
  call.args.reserve(mostArgs);
  call.results.reserve(mostResults);
  startSide();
  call.filler = chooseFiller();
  call.arenaBytes = size_t(plan.maxArenaBytes());
}

void Executable::startSide() {
  bool hasSide = false;
  int32_t events = 0;
  for (const Function &function : plan.functions) {
    for (const Command &command : function.commands)
      hasSide |= command.isBeside;
    events = std::max(events, function.events());
  }
  if (hasSide && dev->isReal())
    side = std::make_unique<SideThread>(
        events, [](void *self) { static_cast<Executable *>(self)->walkSide(); },
        this);
}

void Executable::connectRanks() {
  try {
    if (comm && dev->isReal())
      agreedProgram = requireOneStep(plan, image, *comm);
    dev->connect(plan, dev->isReal() ? comm : nullptr, rank);
  } catch (const std::exception &error) {
    // The other ranks connect to this rank, or wait until it has loaded.
    if (comm)
      comm->abort(error.what());
    throw;
  }
}

/// Sets each command's group of this rank. A device that only records runs as
/// the first of the artefact's ranks.
void Executable::joinRanks() {
  if (plan.ranks == 1)
    comm = nullptr;
  if (comm && comm->size() != plan.ranks)
    badArgument("the artefact is for " + std::to_string(plan.ranks) +
                " ranks, and " + std::to_string(comm->size()) +
                " were launched");
  if (!comm && plan.ranks > 1 && dev->isReal())
    badArgument("the artefact is for " + std::to_string(plan.ranks) +
                " ranks and there is one; launch as many (mpirun -n " +
                std::to_string(plan.ranks) + " ...)");
  rank = comm ? static_cast<uint32_t>(comm->rank()) : 0;
  for (Function &function : plan.functions)
    for (Command &command : function.commands)
      if (command.op == Command::Op::Collective)
        joinGroup(command, static_cast<int32_t>(rank), plan.stageRanks);
  place = rank % static_cast<uint32_t>(plan.stageRanks);
}

void Executable::check(const Interface &interface, void *const *args,
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
    // A donated argument is written while others may still be read.
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
}

void Executable::begin(const Function &function, void *const *args,
                       void *const *results) {
  const Interface &interface = plan.interfaceOf(function);
  call.function = &function;
  call.interface = &interface;
  call.args.assign(args, args + interface.args.size());
  call.results.assign(results, results + interface.results.size());
  for (size_t i = 0; i < interface.results.size(); ++i)
    if (int32_t alias = interface.results[i].aliasArg; alias >= 0)
      call.results[i] = args[alias];
  call.isTimed = profiling;
  call.step = numSteps;
  call.poll = poll;
  call.pollContext = pollContext;
}

void Executable::bind(const Function &function, void *const *args,
                      void *const *results, void *arena) {
  const Interface &interface = plan.interfaceOf(function);
  std::vector<void *> &addresses = boundOf(function);
  for (size_t i = 0; i < interface.buffers.size(); ++i) {
    const Buffer &buffer = interface.buffers[i];
    void *base = nullptr;
    switch (buffer.kind) {
    case Buffer::Kind::Arg:
      base = args[buffer.index];
      break;
    case Buffer::Kind::Result:
      base = results[buffer.index];
      break;
    case Buffer::Kind::Temp:
      base = arena;
      break;
    case Buffer::Kind::Const:
      base = const_cast<void *>(dev->constants());
      break;
    case Buffer::Kind::Rank:
      base = const_cast<void *>(dev->rankNumber(&place));
      break;
    case Buffer::Kind::Tile: // the device adds the thread's memory
      break;
    }
    // As a number: memory of a tile has no place yet.
    addresses[i] = reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(base) +
                                            uintptr_t(buffer.offset));
  }
}

float Executable::scaleOf(size_t counter) const {
  uint64_t word = counts[counterWords * counter + scaleWord];
  uint64_t scales = word >> scaleBits;
  if (!scales)
    return 0;
  uint64_t mean = (word & ((uint64_t(1) << scaleBits) - 1)) / scales;
  auto bits = static_cast<uint32_t>(mean << scaleShift);
  float scale = 0;
  std::memcpy(&scale, &bits, sizeof scale);
  return scale;
}

float Executable::scaleMoved(size_t counter) const {
  float before = scalesBefore[counter], now = scaleOf(counter);
  auto isKnown = [](float scale) { return scale > 0 && std::isfinite(scale); };
  if (!isKnown(before) || !isKnown(now))
    return 0;
  return std::log2(now) - std::log2(before);
}

/// Adds what a kernel has counted in one run.
void Executable::count(const Command &kernel, const uint64_t *words) {
  for (size_t i = 0; i < kernel.counters.size(); ++i)
    for (size_t word = 0; word < counterWords; ++word)
      counts[counterWords * size_t(kernel.counters[i]) + word] +=
          words[counterWords * i + word];
  for (size_t i = 0; i < kernel.elements.size(); ++i)
    dynamicElements[size_t(kernel.counters[i])] += kernel.elements[i];
}

/// Runs the group that starts at `first`.
void Executable::runTiles(const Function &function, const Command &first,
                          ProfileRow *row) {
  const std::vector<void *> &addresses = boundOf(function);
  TileRun run;
  run.commands = &first;
  run.count = first.groupSize;
  size_t buffers = 0, words = 0;
  for (size_t i = 0; i < run.count; ++i) {
    for (int32_t buffer : run.commands[i].buffers)
      kernelArgs[buffers++] = addresses[size_t(buffer)];
    words += counterWords * run.commands[i].counters.size();
  }
  std::fill_n(kernelCounts.begin(), words, 0);
  run.buffers = kernelArgs.data();
  run.counters = kernelCounts.data();
  std::vector<uint64_t> times(profiling ? run.count : 0);
  run.nanoseconds = profiling ? times.data() : nullptr;
  Clock::time_point start = Clock::now();
  dev->tiles(run);
  const uint64_t *counted = kernelCounts.data();
  for (size_t i = 0; i < run.count; ++i) {
    count(run.commands[i], counted);
    counted += counterWords * run.commands[i].counters.size();
  }
  if (!profiling)
    return;
  // Each command's share of the threads' time.
  auto wall = double((Clock::now() - start).count());
  double all = 0;
  for (uint64_t time : times)
    all += double(time);
  for (size_t i = 0; i < run.count; ++i) {
    ++row[i].time.calls;
    row[i].time.nanoseconds +=
        all > 0 ? uint64_t(wall * double(times[i]) / all) : 0;
  }
}

void Executable::execute(const Function &function, const Command &command) {
  const std::vector<void *> &addresses = boundOf(function);
  for (size_t i = 0; i < command.buffers.size(); ++i)
    kernelArgs[i] = addresses[command.buffers[i]];
  void **at = kernelArgs.data();
  switch (command.op) {
  case Command::Op::Kernel:
    std::fill_n(kernelCounts.begin(), counterWords * command.counters.size(),
                0);
    dev->kernel(command, at, kernelCounts.data());
    return count(command, kernelCounts.data());
  case Command::Op::Gemm:
    for (size_t i = 0; i < 3; ++i)
      at[i] = static_cast<uint8_t *>(at[i]) + command.gemmOffsets[i];
    return dev->gemm(command, at);
  case Command::Op::Attention:
    return dev->attention(command, at);
  case Command::Op::Lapack:
    return dev->lapack(command, at);
  case Command::Op::HostCall:
    return callHost(function, command, at);
  case Command::Op::Loop:
    return iterate(command, at);
  case Command::Op::Collective:
    return dev->collective(command, comm, at[0], at[1]);
  case Command::Op::Copy:
    return dev->copy(command, at[0], at[1]);
  case Command::Op::Fill:
    return dev->fill(command, at[0]);
  case Command::Op::Record:
    return side ? side->record(command.event) : dev->record(command);
  case Command::Op::Wait:
    return side ? sit(command) : dev->wait(command);
  }
}

/// The results of an iteration are in the memory of its carries, so that one
/// binding serves all iterations, but for slices.
void Executable::iterate(const Command &loop, void *const *at) {
  const Function &callee = plan.functions[size_t(loop.callee)];
  const Interface &interface = plan.interfaceOf(callee);
  std::vector<void *> &args = loopArgs[size_t(loop.callee)];
  std::copy_n(at, args.size(), args.begin());
  const void *flag = loop.condition < 0 ? nullptr : at[loop.condition];
  bind(callee, args.data(), args.data(),
       loop.arena < 0 ? nullptr : at[loop.arena]);
  std::vector<void *> &addresses = boundOf(callee);
  for (int64_t trip = 0;
       flag ? dev->goesOn(loop, flag, trip) : trip < loop.trips; ++trip) {
    // Otherwise walk() polls after each command.
    if (dev->isAsynchronous() || callee.commands.empty())
      pollIfDue(Clock::now());
    for (const LoopSlice &slice : loop.slices) {
      auto *memory =
          static_cast<uint8_t *>(args[slice.argument]) + slice.place(trip);
      for (int32_t buffer : slice.buffers)
        addresses[size_t(buffer)] =
            memory + interface.buffers[size_t(buffer)].offset;
    }
    dev->beginIteration(callee);
    walk(callee);
    dev->endIteration(callee);
  }
  if (profiling && dev->isAsynchronous())
    ++rows[loop.index].time.calls;
}

void Executable::callHost(const Function &function, const Command &command,
                          void *const *at) {
  const Interface &interface = plan.interfaceOf(function);
  auto clear = [&](int32_t place) {
    std::memset(at[place], 0,
                size_t(interface.buffers[command.buffers[place]].type.bytes));
  };
  if (command.done >= 0)
    clear(command.done);
  bool isMade =
      command.when < 0 || *static_cast<const uint8_t *>(at[command.when]) != 0;
  if (!isMade || !dev->isReal()) {
    for (int32_t i = 0; i < command.numWrites; ++i)
      clear(command.numReads + i);
    return;
  }
  if (hostCall(hostContext, command.hostCall, at))
    throw Error(SCALIFY_RT_HOST,
                "'" + command.name + "' at " + command.loc + " failed");
}

/// Checked before any command runs.
void Executable::requireHost(const Function &function) const {
  const Command *command = function.firstHostCall;
  if (command && !hostCall && dev->isReal())
    badArgument("'" + command->name + "' at " + command->loc +
                " calls the Python process that compiled the step; run it "
                "there, by scalify.jit");
}

void Executable::pollIfDue(Clock::time_point now) {
  if (!poll || now - lastPoll < pollInterval)
    return;
  lastPoll = now;
  if (poll(pollContext))
    throw Error(SCALIFY_RT_INTERRUPTED, "the run was interrupted");
}

void Executable::run(const std::string &functionName, void *const *args,
                     int32_t numArgs, void *const *results, int32_t numResults,
                     bool isTrial) {
  std::unique_lock<std::mutex> lock = lockForUse();
  ScopedFloatControl control;
  const Function *function = plan.find(functionName);
  if (!function)
    badArgument("the artefact has no function '" + functionName + "'");
  check(plan.interfaceOf(*function), args, numArgs, results, numResults);
  const bool measures = functionName == "measure";
  if (!measures && !hasMeasured && functionName == "step" &&
      plan.find("measure"))
    badArgument("the step takes amaxes of its arguments: run the function "
                "'measure' on them first");
  requireHost(*function);
  begin(*function, args, results);
  leavesOutUpdates = isTrial && !plan.isGpu();
  // @rescale reads the counts of the step, so they stay.
  if (function->isCounting) {
    for (size_t i = 0; i < scalesBefore.size(); ++i)
      scalesBefore[i] = scaleOf(i);
    std::fill(counts.begin(), counts.end(), 0);
    std::fill(dynamicElements.begin(), dynamicElements.end(), 0);
  }
  // Only runs with exchanges count as steps: whether a rank measures its
  // arguments is unknown to the others.
  if (function->isExchanging) {
    if (comm)
      comm->beginStep(call.step, agreedProgram);
    ++numSteps;
  }
  lastPoll = Clock::now();
  try {
    if (dev->begin(call)) {
      bind(*function, call.args.data(), call.results.data(), dev->arena());
      side ? walkWithSide(*function) : walk(*function);
    }
    dev->finish(call, counts.data());
    if (dev->isAsynchronous())
      takeTimes();
    hasMeasured |= measures;
  } catch (const std::exception &error) {
    dev->abandon();
    // The other ranks wait for this rank in collectives that it will not reach.
    if (comm)
      comm->abort(error.what());
    throw;
  }
}

Executable::ProfileRow *Executable::rowsOf(const Function &function) {
  return rows.data() + firstRow[size_t(&function - plan.functions.data())];
}

void Executable::walk(const Function &function) {
  ProfileRow *const own = rowsOf(function);
  const bool timed = (profiling || poll) && !dev->isAsynchronous();
  Clock::time_point start = timed ? Clock::now() : Clock::time_point();
  function.forEachGroup([&](const Command *first, size_t) {
    ProfileRow *row = own + (first - function.commands.data());
    const Command &command = *first;
    if ((side && command.isBeside) || (leavesOutUpdates && command.isUpdate))
      return;
    command.tiles ? runTiles(function, command, row)
                  : execute(function, command);
    if (side)
      side->check();
    if (!timed)
      return;
    Clock::time_point end = Clock::now();
    // The commands of a loop, and of a group, have times of their own.
    row->time.calls += profiling && !command.tiles;
    if (profiling && command.op != Command::Op::Loop && !command.tiles)
      row->time.nanoseconds += uint64_t((end - start).count());
    start = end;
    pollIfDue(end);
  });
}

void Executable::walkWithSide(const Function &function) {
  side->start();
  try {
    walk(function);
    while (!side->waitForEnd(pollInterval))
      pollIfDue(Clock::now());
  } catch (const std::exception &error) {
    if (comm)
      comm->interrupt(error.what());
    side->stop();
    throw;
  }
}

/// Runs the commands of side streams: collectives and events.
void Executable::walkSide() {
  const Function &function = *call.function;
  ProfileRow *row = rowsOf(function);
  for (const Command &command : function.commands) {
    if (command.isBeside && !(leavesOutUpdates && command.isUpdate)) {
      Clock::time_point start = Clock::now();
      if (command.op == Command::Op::Record)
        side->record(command.event);
      else if (command.op == Command::Op::Wait)
        side->wait(command.event);
      else
        dev->collective(command, comm, boundOf(function)[command.buffers[0]],
                        boundOf(function)[command.buffers[1]]);
      if (profiling) {
        ++row->time.calls;
        row->time.nanoseconds += uint64_t((Clock::now() - start).count());
      }
    }
    ++row;
  }
}

/// Waits for an event of the side thread.
void Executable::sit(const Command &wait) {
  while (!side->waitFor(wait.event, pollInterval))
    pollIfDue(Clock::now());
}

void Executable::takeTimes() {
  const std::vector<Device::CommandTime> times = dev->takeTimes();
  for (size_t i = 0; i < times.size(); ++i) {
    rows[i].time.calls += times[i].calls;
    rows[i].time.nanoseconds += times[i].nanoseconds;
  }
  pollIfDue(Clock::now());
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

void Executable::setHostCall(scalify_rt_host_call callback, void *context) {
  std::unique_lock<std::mutex> lock = lockForUse();
  hostCall = callback;
  hostContext = context;
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

void *Executable::allocate(size_t bytes) {
  std::unique_lock<std::mutex> lock = lockForUse();
  return dev->allocate(bytes);
}

void Executable::release(void *memory) {
  std::unique_lock<std::mutex> lock = lockForUse();
  dev->release(memory);
}

void Executable::copyIn(void *dst, const void *src, size_t bytes) {
  std::unique_lock<std::mutex> lock = lockForUse();
  dev->copyIn(dst, src, bytes);
}

void Executable::synchronizeAll() {
  std::unique_lock<std::mutex> lock = lockForUse();
  dev->synchronizeAll();
}

void Executable::copyWithin(void *dst, const void *src, size_t bytes) {
  std::unique_lock<std::mutex> lock = lockForUse();
  dev->copyWithin(dst, src, bytes);
}

void Executable::copyOut(void *dst, const void *src, size_t bytes) {
  std::unique_lock<std::mutex> lock = lockForUse();
  dev->copyOut(dst, src, bytes);
}
