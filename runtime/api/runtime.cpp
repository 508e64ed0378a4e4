// The C interface of executables.
#include "scalify/runtime.h"
#include "api/Guarded.h"
#include "comm/OpenCommunicator.h"
#include "loader/Executable.h"
#include "loader/Manifest.h"
#include "support/Error.h"

#include <cmath>
#include <cstring>

using namespace scalify::rt;

struct scalify_rt_executable {
  scalify_rt_executable(Image image, const DeviceMaker &makeDevice,
                        Communicator *comm)
      : impl(std::move(image), makeDevice, comm),
        deviceName(impl.device().deviceName()) {}
  Executable impl;
  std::string deviceName;
  mutable std::string trace;
};

namespace {
void requireHandle(const void *handle) {
  if (!handle)
    badArgument("the executable handle is null");
}

template <typename Table>
void requireIndex(int32_t index, const Table &table, const char *what) {
  if (index < 0 || static_cast<size_t>(index) >= table.size())
    badArgument("there is no " + std::string(what) + " " +
                std::to_string(index) + ", only " +
                std::to_string(table.size()));
}

template <typename MakeImage>
scalify_rt_status load(const scalify_rt_options *options,
                       scalify_rt_executable **out, MakeImage makeImage) {
  return guarded([&] {
    if (!out)
      badArgument("the output pointer for the executable is null");
    *out = nullptr;
    scalify_rt_options chosen = {};
    if (options)
      chosen = *options;
    Communicator *comm = chosen.comm ? &getCommunicator(chosen.comm) : nullptr;
    try {
      *out = new scalify_rt_executable(
          makeImage(),
          [&](const Program &program) { return makeDevice(chosen, program); },
          comm);
    } catch (const std::exception &error) {
      // The other ranks wait until this rank has loaded.
      if (comm)
        comm->abort(error.what());
      throw;
    }
  });
}

void describe(const TensorType &type, scalify_rt_tensor &out) {
  out.dtype = name(type.dtype);
  out.shape = type.shape.data();
  out.rank = static_cast<int32_t>(type.shape.size());
  out.bytes = static_cast<uint64_t>(type.bytes);
}

void describeArg(const Interface &interface, int32_t index,
                 scalify_rt_tensor &out) {
  requireIndex(index, interface.args, "argument");
  const Argument &arg = interface.args[index];
  describe(arg.type, out);
  out.name = arg.name.c_str();
  out.role = arg.role.c_str();
  out.alias = arg.aliasResult;
}

void describeResult(const Interface &interface, int32_t index,
                    scalify_rt_tensor &out) {
  requireIndex(index, interface.results, "result");
  const Result &result = interface.results[index];
  describe(result.type, out);
  out.name = result.name.c_str();
  out.role = "";
  out.alias = result.aliasArg;
}

/// Returns the type of the products; for mixed FP8 operands the first one's.
const char *typeOf(const GemmTypes &types) {
  return types.isTF32 ? "tf32" : name(types.operands[0]);
}

/// Returns null if there is no such function.
const Interface *findInterface(const scalify_rt_executable *executable,
                               const char *function) {
  if (!executable || !function)
    return nullptr;
  const Program &program = executable->impl.program();
  const Function *found = program.find(function);
  return found ? &program.interfaceOf(*found) : nullptr;
}

const Interface &requireInterface(const scalify_rt_executable *executable,
                                  const char *function) {
  const Interface *found = findInterface(executable, function);
  if (!found)
    badArgument("the artefact has no function '" +
                std::string(function ? function : "") + "'");
  return *found;
}
} // namespace

const char *scalify_rt_version(void) { return SCALIFY_RUNTIME_VERSION; }

int32_t scalify_rt_manifest_version(void) { return manifestVersion; }

const char *scalify_rt_last_error(void) { return lastError().c_str(); }

scalify_rt_status scalify_rt_load_file(const char *path,
                                       const scalify_rt_options *options,
                                       scalify_rt_executable **out) {
  return load(options, out, [&] {
    if (!path)
      badArgument("the path is null");
    return Image::fromFile(path);
  });
}

scalify_rt_status scalify_rt_load_memory(const void *data, size_t size,
                                         const scalify_rt_options *options,
                                         scalify_rt_executable **out) {
  return load(options, out, [&] {
    if (!data)
      badArgument("the artefact's data is null");
    return Image::fromMemory(data, size);
  });
}

void scalify_rt_free(scalify_rt_executable *executable) { delete executable; }

const char *scalify_rt_device_name(const scalify_rt_executable *executable) {
  return executable ? executable->deviceName.c_str() : "";
}

int32_t scalify_rt_device_index(const scalify_rt_executable *executable) {
  return executable ? executable->impl.device().deviceIndex() : -1;
}

const char *scalify_rt_manifest(const scalify_rt_executable *executable) {
  return executable ? executable->impl.manifest().c_str() : "";
}

int32_t scalify_rt_num_args(const scalify_rt_executable *executable) {
  return executable ? int32_t(executable->impl.program().args.size()) : 0;
}

int32_t scalify_rt_num_results(const scalify_rt_executable *executable) {
  return executable ? int32_t(executable->impl.program().results.size()) : 0;
}

scalify_rt_status scalify_rt_arg(const scalify_rt_executable *executable,
                                 int32_t index, scalify_rt_tensor *out) {
  return guarded([&] {
    requireHandle(executable);
    describeArg(executable->impl.program(), index, *out);
  });
}

scalify_rt_status scalify_rt_result(const scalify_rt_executable *executable,
                                    int32_t index, scalify_rt_tensor *out) {
  return guarded([&] {
    requireHandle(executable);
    describeResult(executable->impl.program(), index, *out);
  });
}

int32_t scalify_rt_num_functions(const scalify_rt_executable *executable) {
  return executable ? int32_t(executable->impl.program().functions.size()) : 0;
}

const char *scalify_rt_function_name(const scalify_rt_executable *executable,
                                     int32_t index) {
  if (index < 0 || index >= scalify_rt_num_functions(executable))
    return nullptr;
  return executable->impl.program().functions[size_t(index)].name.c_str();
}

int32_t scalify_rt_function_num_args(const scalify_rt_executable *executable,
                                     const char *function) {
  const Interface *found = findInterface(executable, function);
  return found ? int32_t(found->args.size()) : -1;
}

int32_t scalify_rt_function_num_results(const scalify_rt_executable *executable,
                                        const char *function) {
  const Interface *found = findInterface(executable, function);
  return found ? int32_t(found->results.size()) : -1;
}

scalify_rt_status
scalify_rt_function_arg(const scalify_rt_executable *executable,
                        const char *function, int32_t index,
                        scalify_rt_tensor *out) {
  return guarded([&] {
    requireHandle(executable);
    describeArg(requireInterface(executable, function), index, *out);
  });
}

scalify_rt_status
scalify_rt_function_result(const scalify_rt_executable *executable,
                           const char *function, int32_t index,
                           scalify_rt_tensor *out) {
  return guarded([&] {
    requireHandle(executable);
    describeResult(requireInterface(executable, function), index, *out);
  });
}

scalify_rt_status scalify_rt_initial(const scalify_rt_executable *executable,
                                     int32_t index, void *data) {
  return guarded([&] {
    requireHandle(executable);
    const auto &args = executable->impl.program().args;
    requireIndex(index, args, "argument");
    const Argument &arg = args[index];
    if (arg.initialExponents.empty() && !arg.isKept())
      badArgument("argument '" + arg.name + "' has no initial value");
    std::memset(data, 0, static_cast<size_t>(arg.type.bytes));
    float *out = static_cast<float *>(data);
    for (int32_t exponent : arg.initialExponents)
      *out++ = std::ldexp(1.0f, exponent);
  });
}

scalify_rt_status scalify_rt_run(scalify_rt_executable *executable,
                                 const char *function, void *const *args,
                                 int32_t num_args, void *const *results,
                                 int32_t num_results) {
  return guarded([&] {
    requireHandle(executable);
    if (!function || (num_args && !args) || (num_results && !results))
      badArgument("the function's name, arguments or results are null");
    executable->impl.run(function, args, num_args, results, num_results);
  });
}

scalify_rt_status scalify_rt_try(scalify_rt_executable *executable,
                                 void *const *args, int32_t num_args,
                                 void *const *results, int32_t num_results) {
  return guarded([&] {
    requireHandle(executable);
    if ((num_args && !args) || (num_results && !results))
      badArgument("the arguments or results are null");
    executable->impl.run("step", args, num_args, results, num_results,
                         /*isTrial=*/true);
  });
}

int32_t scalify_rt_is_spared(const scalify_rt_executable *executable,
                             int32_t index) {
  if (!executable || index < 0)
    return 0;
  const Program &program = executable->impl.program();
  return !program.isGpu() && size_t(index) < program.args.size() &&
         program.args[size_t(index)].isSpared;
}

scalify_rt_status scalify_rt_memory_alloc(scalify_rt_executable *executable,
                                          uint64_t bytes, void **out) {
  return guarded([&] {
    if (!out)
      badArgument("the output pointer for the memory's address is null");
    *out = nullptr;
    requireHandle(executable);
    *out = executable->impl.allocate(bytes);
  });
}

scalify_rt_status scalify_rt_memory_free(scalify_rt_executable *executable,
                                         void *memory) {
  return guarded([&] {
    requireHandle(executable);
    executable->impl.release(memory);
  });
}

scalify_rt_status scalify_rt_memory_copy_in(scalify_rt_executable *executable,
                                            void *memory, const void *data,
                                            uint64_t bytes) {
  return guarded([&] {
    requireHandle(executable);
    if (bytes && (!memory || !data))
      badArgument("the source or destination of the copy is null");
    executable->impl.copyIn(memory, data, bytes);
  });
}

scalify_rt_status scalify_rt_memory_copy_out(scalify_rt_executable *executable,
                                             void *data, const void *memory,
                                             uint64_t bytes) {
  return guarded([&] {
    requireHandle(executable);
    if (bytes && (!memory || !data))
      badArgument("the source or destination of the copy is null");
    executable->impl.copyOut(data, memory, bytes);
  });
}

scalify_rt_status scalify_rt_memory_copy(scalify_rt_executable *executable,
                                         void *memory, const void *source,
                                         uint64_t bytes) {
  return guarded([&] {
    requireHandle(executable);
    if (bytes && (!memory || !source))
      badArgument("the source or destination of the copy is null");
    executable->impl.copyWithin(memory, source, bytes);
  });
}

scalify_rt_status scalify_rt_synchronize(scalify_rt_executable *executable) {
  return guarded([&] {
    requireHandle(executable);
    executable->impl.synchronizeAll();
  });
}

void *scalify_rt_stream(const scalify_rt_executable *executable) {
  return executable ? executable->impl.device().stepStream() : nullptr;
}

int32_t scalify_rt_threads(const scalify_rt_executable *executable) {
  return executable ? executable->impl.device().threads() : 0;
}

scalify_rt_status scalify_rt_set_threads(scalify_rt_executable *executable,
                                         int32_t threads) {
  return guarded([&] {
    requireHandle(executable);
    if (threads < 0 || threads > 4096)
      badArgument("threads must be 0 to 4096, not " + std::to_string(threads));
    executable->impl.setThreads(threads);
  });
}

scalify_rt_status scalify_rt_set_poll(scalify_rt_executable *executable,
                                      scalify_rt_poll poll, void *context) {
  return guarded([&] {
    requireHandle(executable);
    executable->impl.setPoll(poll, context);
  });
}

scalify_rt_status scalify_rt_set_host_call(scalify_rt_executable *executable,
                                           scalify_rt_host_call call,
                                           void *context) {
  return guarded([&] {
    requireHandle(executable);
    executable->impl.setHostCall(call, context);
  });
}

int32_t scalify_rt_num_counters(const scalify_rt_executable *executable) {
  return executable ? int32_t(executable->impl.program().counters.size()) : 0;
}

scalify_rt_status
scalify_rt_counter_info(const scalify_rt_executable *executable, int32_t index,
                        scalify_rt_counter *out) {
  return guarded([&] {
    requireHandle(executable);
    const auto &counters = executable->impl.program().counters;
    requireIndex(index, counters, "counter");
    const Counter &counter = counters[index];
    const std::vector<uint64_t> &words = executable->impl.health();
    const uint64_t *counts = &words[SCALIFY_RT_COUNTER_WORDS * index];
    *out = {counter.cast.c_str(),
            counter.op.c_str(),
            counter.loc.c_str(),
            counter.format.c_str(),
            executable->impl.elementsOf(size_t(index)),
            counts[0],
            counts[1],
            counts[2],
            counts[3],
            counts[4],
            executable->impl.scaleOf(index),
            executable->impl.scaleMoved(index)};
  });
}

const uint64_t *scalify_rt_counters(const scalify_rt_executable *executable) {
  return executable ? executable->impl.health().data() : nullptr;
}

scalify_rt_status scalify_rt_set_counters(scalify_rt_executable *executable,
                                          const uint64_t *words) {
  return guarded([&] {
    requireHandle(executable);
    if (!words && !executable->impl.program().counters.empty())
      badArgument("the words of the counters are null");
    executable->impl.setHealth(words);
  });
}

scalify_rt_status scalify_rt_set_profiling(scalify_rt_executable *executable,
                                           int32_t on) {
  return guarded([&] {
    requireHandle(executable);
    executable->impl.setProfiling(on != 0);
  });
}

int32_t
scalify_rt_num_profile_entries(const scalify_rt_executable *executable) {
  return executable ? int32_t(executable->impl.profile().size()) : 0;
}

/// Returns the nanoseconds of one call at the peaks of the target.
static double getLeastTime(const scalify_rt_executable &executable,
                           uint64_t bytes, uint64_t flops,
                           const std::string &type) {
  const PeakRates &peaks = executable.impl.program().peaks;
  if (peaks.device.empty() || executable.deviceName != peaks.device)
    return 0;
  double rate = type.rfind("f8", 0) == 0 ? peaks.bits8
                : type == "tf32"         ? peaks.tf32
                : type == "f32"          ? peaks.f32
                                         : peaks.bits16;
  return std::max(double(bytes) / peaks.bandwidth, double(flops) / rate);
}

scalify_rt_status scalify_rt_profile(const scalify_rt_executable *executable,
                                     int32_t index,
                                     scalify_rt_profile_entry *out) {
  return guarded([&] {
    requireHandle(executable);
    const auto &rows = executable->impl.profile();
    requireIndex(index, rows, "profile entry");
    const Executable::ProfileRow &row = rows[index];
    const Command &command = *row.command;
    bool isGemm = command.op == Command::Op::Gemm;
    bool isAttention = command.op == Command::Op::Attention;
    uint64_t flops = isGemm        ? command.gemm.flops()
                     : isAttention ? command.attention.flops()
                                   : 0;
    const char *type = isGemm        ? typeOf(command.gemmTypes)
                       : isAttention ? name(command.attention.type)
                                     : "";
    *out = {row.function->name.c_str(),
            name(command.op),
            command.name.c_str(),
            command.loc.c_str(),
            row.time.calls,
            row.time.nanoseconds,
            uint64_t(command.bytes),
            flops,
            type,
            getLeastTime(*executable, uint64_t(command.bytes), flops, type)};
  });
}

const char *scalify_rt_trace(const scalify_rt_executable *executable) {
  if (!executable)
    return "";
  scalify_rt_status status =
      guarded([&] { executable->trace = executable->impl.device().trace(); });
  return status == SCALIFY_RT_OK ? executable->trace.c_str() : "";
}
