#include "device/Device.h"
#include "device/cuda/ChooseGpu.h"
#include "device/cuda/CudaDevice.h"
#include "support/Error.h"

using namespace scalify::rt;

void Device::fillUnwritten(const StepCall &call) {
  if (!call.filler || !isReal())
    return;
  auto set = [&](void *dst, size_t bytes) {
    if (bytes)
      setBytes(dst, bytes, *call.filler);
  };
  set(arena(), call.arenaBytes);
  for (size_t i = 0; i < call.results.size(); ++i)
    if (const Result &result = call.interface->results[i]; result.aliasArg < 0)
      set(call.results[i], size_t(result.type.bytes));
}

void Device::tiles(const TileRun &run) {
  void *const *buffers = run.buffers;
  uint64_t *counters = run.counters;
  for (size_t i = 0; i < run.count; ++i) {
    const Command &command = run.commands[i];
    if (command.op == Command::Op::Kernel)
      kernel(command, buffers, counters);
    else
      gemm(command, buffers);
    buffers += command.buffers.size();
    counters += counterWords * command.counters.size();
  }
}

void Device::attention(const Command &command, void *const *) {
  unsupported("attention '" + command.name + "' needs a GPU");
}

void Device::lapack(const Command &command, void *const *) {
  unsupported("LAPACK's '" + command.name + "' needs a CPU");
}

void Device::collective(const Command &command, Communicator *, const void *,
                        void *) {
  unsupported("collective '" + command.name + "' is not for this device");
}

std::unique_ptr<Device>
scalify::rt::makeDevice(const scalify_rt_options &options,
                        const Program &program) {
  if (options.threads < 0 || options.threads > 4096)
    badArgument("threads must be 0 to 4096, not " +
                std::to_string(options.threads));
  const std::string target = "artefact is for target '" + program.target + "'";
  switch (options.device) {
  case SCALIFY_RT_DEVICE_CPU:
    if (program.isGpu())
      unsupported(target + ": load it with device 'cuda', or with device "
                           "'null' to see what a step would do");
    return makeCpuDevice(options.threads);
  case SCALIFY_RT_DEVICE_NULL:
    return program.isGpu() ? cuda::makeRecordingDevice(program)
                           : makeNullDevice();
  case SCALIFY_RT_DEVICE_CUDA: {
    if (!program.isGpu())
      unsupported(target + ": load it with device 'cpu', or compile it for a "
                           "GPU");
    std::shared_ptr<cuda::Driver> driver = cuda::loadDriver();
    return cuda::makeCudaDevice(
        driver, cuda::chooseGpu(*driver, options.device_index), program);
  }
  }
  unsupported("there is no device " + std::to_string(int(options.device)));
}
