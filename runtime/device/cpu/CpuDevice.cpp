// Runs commands on the cores of this machine. Every command is split into tasks
// by its shape alone; the pool only decides which thread computes a task.
#include "blas/Blas.h"
#include "blas/NarrowGemm.h"
#include "device/HostDevice.h"
#include "device/cpu/TileMemory.h"
#include "loader/CpuFeatures.h"
#include "loader/Image.h"
#include "loader/SharedObject.h"
#include "support/ThreadPool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <unordered_map>

using namespace scalify::rt;

namespace {
// One core copies this much in about the time that another takes to wake up.
constexpr int64_t copyChunk = 1 << 20;

class CpuDevice : public HostDevice {
public:
  explicit CpuDevice(int threads) { setThreads(threads); }

  void load(Program &program, const Image &image) override {
    HostDevice::load(program, image);
    for (Function &function : program.functions)
      for (Command &command : function.commands) {
        if (command.op == Command::Op::Kernel)
          loadKernel(program, image, command);
        else if (command.op == Command::Op::Gemm && command.tiles)
          loadTiledGemm(command);
        else if (command.op == Command::Op::Gemm)
          loadGemm(command);
        else if (command.op == Command::Op::Lapack)
          loadLapack(command.lapack);
      }
    for (const Function &function : program.functions)
      sizeForTiles(function);
    tileBytes = size_t(program.maxTileBytes());
    tileMemory.resize(pool->threads(), tileBytes, mostBuffers);
    reserve();
  }

  bool begin(StepCall &call) override {
    if (call.filler && tileMemory.size())
      std::memset(tileMemory.data(), *call.filler, tileMemory.size());
    return HostDevice::begin(call);
  }

  void kernel(const Command &command, void *const *buffers,
              uint64_t *counters) override {
    const size_t words = command.counters.size() * counterWords;
    const int64_t tasks = command.tasks();
    std::fill_n(slots.begin(), words * static_cast<size_t>(tasks), 0);
    pool->forEach(tasks, [&](int64_t task) {
      int64_t lo = task * command.rowsPerTask;
      int64_t hi = lo + std::min(command.rowsPerTask, command.rows - lo);
      command.kernel(buffers, lo, hi,
                     slots.data() + static_cast<size_t>(task) * words);
    });
    for (int64_t task = 0; task < tasks; ++task)
      for (size_t word = 0; word < words; ++word)
        counters[word] += slots[static_cast<size_t>(task) * words + word];
  }

  void gemm(const Command &command, void *const *buffers) override {
    const GemmPlan &plan = command.gemmPlan;
    if (plan.batches == 0 || plan.m == 0 || plan.n == 0)
      return;
    if (command.gemmTypes.operands[0] == DType::BF16) {
      const NarrowGemm &narrow = *narrowGemms.at(&command);
      NarrowGemm::Operands operands{static_cast<const uint16_t *>(buffers[0]),
                                    static_cast<const uint16_t *>(buffers[1]),
                                    static_cast<float *>(buffers[2])};
      pool->forEach(narrow.tasks(),
                    [&](int64_t task) { narrow.run(task, operands); });
      return;
    }
    pool->forEach(plan.tasks(), [&](int64_t task) {
      runGemmTask(command.gemm, plan, static_cast<const float *>(buffers[0]),
                  static_cast<const float *>(buffers[1]),
                  static_cast<float *>(buffers[2]), task);
    });
  }

  void tiles(const TileRun &run) override {
    size_t words = 0;
    for (size_t i = 0; i < run.count; ++i)
      words += run.commands[i].counters.size() * counterWords;
    const int64_t tiles = run.commands[0].tiles;
    std::fill_n(slots.begin(), words * size_t(tiles), 0);
    std::fill_n(times.begin(), run.nanoseconds ? run.count * size_t(tiles) : 0,
                0);
    tileMemory.begin();
    pool->forEach(tiles, [&](int64_t tile) {
      runTile(run, tile, slots.data() + size_t(tile) * words);
    });
    for (size_t tile = 0; tile < size_t(tiles); ++tile) {
      for (size_t word = 0; word < words; ++word)
        run.counters[word] += slots[tile * words + word];
      for (size_t i = 0; run.nanoseconds && i < run.count; ++i)
        run.nanoseconds[i] += times[tile * run.count + i];
    }
  }

  void lapack(const Command &command, void *const *buffers) override {
    const LapackCall &call = command.lapack;
    pool->forEach(call.tasks, [&](int64_t task) {
      runLapackTask(call, buffers,
                    integers.data() + task * call.signature.integers(), task);
    });
  }

  void collective(const Command &command, Communicator *comm, const void *src,
                  void *dst) override {
    if (comm)
      return comm->run(command.collective, src, dst);
    // A single rank exchanges with itself or, in a permute, maybe with none.
    // The two may overlap.
    const Collective &what = command.collective;
    size_t bytes =
        static_cast<size_t>(what.elements) * size_t(byteWidth(what.type));
    if (what.kind == Collective::Kind::Permute && what.from < 0)
      std::memset(dst, 0, bytes);
    else
      std::memmove(dst, src, bytes);
  }

  void copy(const Command &command, const void *src, void *dst) override {
    if (src == dst || command.bytes == 0)
      return;
    inChunks(command.bytes, [&](int64_t at, size_t size) {
      std::memcpy(static_cast<char *>(dst) + at,
                  static_cast<const char *>(src) + at, size);
    });
  }

  void fill(const Command &command, void *dst) override {
    inChunks(command.bytes, [&](int64_t at, size_t size) {
      std::memset(static_cast<char *>(dst) + at, command.fillByte, size);
    });
  }

  int threads() const override { return pool->threads(); }

  void setThreads(int threads) override {
    if (threads <= 0)
      threads = availableCores();
    if (pool && pool->threads() == threads)
      return;
    // What may fail comes before the change: no thread may lack its memory.
    auto made = std::make_unique<ThreadPool>(threads);
    tileMemory.resize(threads, tileBytes, mostBuffers);
    pool = std::move(made);
    reserve();
  }

private:
  /// Allocates what products need, on each thread, so that no step does.
  void reserve() {
    if (narrowGemms.empty())
      return;
    std::atomic<int> arrived = 0;
    pool->forEach(pool->threads(), [&](int64_t) {
      for (const auto &entry : narrowGemms)
        entry.second->reserve();
      // A thread that waits takes no second task.
      ++arrived;
      while (arrived < pool->threads())
        std::this_thread::yield();
    });
  }

  void loadKernel(const Program &program, const Image &image,
                  Command &command) {
    if (!isLoaded) {
      if (!program.hasKernels())
        failWithoutKernels();
      requireCpu(program.mcpu);
      kernels = SharedObject(image.data() + program.kernels.offset,
                             static_cast<size_t>(program.kernels.size));
      isLoaded = true;
    }
    command.kernel = kernels.kernel(command.symbol);
    slots.resize(
        std::max(slots.size(), command.counters.size() * counterWords *
                                   static_cast<size_t>(command.tasks())));
  }

  void loadGemm(const Command &command) {
    const GemmPlan &plan = command.gemmPlan;
    bool isEmpty = plan.batches == 0 || plan.m == 0 || plan.n == 0;
    if (command.gemmTypes.operands[0] != DType::BF16)
      Blas::get();
    else if (!isEmpty)
      narrowGemms[&command] = NarrowGemm::make(command.gemm, pool->threads());
  }

  void loadTiledGemm(const Command &command) {
    const GemmPlan &plan = command.tiledGemm.plan;
    bool isEmpty = plan.batches == 0 || plan.m == 0 || plan.n == 0;
    if (command.gemmTypes.operands[0] != DType::BF16)
      Blas::get();
    else if (!isEmpty)
      narrowGemms[&command] = NarrowGemm::makeTask(command.tiledGemm.shape);
  }

  /// Makes room for the counts and times of the function's groups.
  void sizeForTiles(const Function &function) {
    function.forEachGroup([&](const Command *first, size_t count) {
      const auto tiles = size_t(first->tiles);
      size_t words = 0;
      for (size_t i = 0; tiles && i < count; ++i) {
        words += first[i].counters.size() * counterWords;
        mostBuffers = std::max(mostBuffers, first[i].buffers.size());
      }
      slots.resize(std::max(slots.size(), words * tiles));
      times.resize(std::max(times.size(), count * tiles));
    });
  }

  /// Runs one tile of all commands of a group, with the counts and times in
  /// the tile's own slots.
  void runTile(const TileRun &run, int64_t tile, uint64_t *counters) {
    using Clock = std::chrono::steady_clock;
    TileSlot &slot = tileMemory.own();
    std::vector<void *> &addresses = slot.buffers;
    const auto own = reinterpret_cast<uintptr_t>(slot.memory);
    void *const *buffers = run.buffers;
    Clock::time_point start = Clock::now();
    for (size_t i = 0; i < run.count; ++i) {
      const Command &command = run.commands[i];
      for (size_t j = 0; j < command.buffers.size(); ++j)
        addresses[j] = buffers[j];
      for (size_t j = 0; j < command.tileStrides.size(); ++j)
        if (int64_t stride = command.tileStrides[j])
          // The whole buffer would start here if the tile were in its place.
          addresses[j] = reinterpret_cast<void *>(
              own + reinterpret_cast<uintptr_t>(buffers[j]) -
              uintptr_t(tile * stride));
      runTileOf(command, tile, addresses.data(), counters);
      buffers += command.buffers.size();
      counters += command.counters.size() * counterWords;
      if (run.nanoseconds) {
        Clock::time_point end = Clock::now();
        times[size_t(tile) * run.count + i] = uint64_t((end - start).count());
        start = end;
      }
    }
  }

  void runTileOf(const Command &command, int64_t tile, void *const *buffers,
                 uint64_t *counters) {
    if (command.op == Command::Op::Kernel) {
      int64_t rows = command.rows / command.tiles;
      return command.kernel(buffers, tile * rows, (tile + 1) * rows, counters);
    }
    const TiledGemm &gemm = command.tiledGemm;
    if (gemm.plan.batches == 0 || gemm.plan.m == 0 || gemm.plan.n == 0)
      return;
    std::array<int64_t, 3> offsets = gemm.offsetsOf(tile);
    void *at[3];
    for (size_t i = 0; i < 3; ++i)
      at[i] = static_cast<uint8_t *>(buffers[i]) + command.gemmOffsets[i] +
              offsets[i] * byteWidth(command.gemmTypes.operands[i]);
    if (command.gemmTypes.operands[0] != DType::BF16)
      return runGemmTask(
          gemm.shape, gemm.plan, static_cast<const float *>(at[0]),
          static_cast<const float *>(at[1]), static_cast<float *>(at[2]), 0);
    NarrowGemm::Operands operands{static_cast<const uint16_t *>(at[0]),
                                  static_cast<const uint16_t *>(at[1]),
                                  static_cast<float *>(at[2])};
    narrowGemms.at(&command)->run(0, operands);
  }

  void loadLapack(LapackCall &call) {
    call.function = findLapackRoutine(call.shape, call.isDouble);
    integers.resize(std::max(integers.size(),
                             size_t(call.tasks * call.signature.integers())));
  }

  template <typename Fn> void inChunks(int64_t bytes, Fn fn) {
    pool->forEach((bytes + copyChunk - 1) / copyChunk, [&](int64_t chunk) {
      int64_t at = chunk * copyChunk;
      fn(at, static_cast<size_t>(std::min(copyChunk, bytes - at)));
    });
  }

  std::unique_ptr<ThreadPool> pool;
  /// The products of BF16. Commands stay where they are once they are loaded.
  std::unordered_map<const Command *, std::unique_ptr<NarrowGemm>> narrowGemms;
  SharedObject kernels;
  bool isLoaded = false;
  /// Counter words of each task of the running kernel, or of each tile of a
  /// group, and the nanoseconds of each tile.
  std::vector<uint64_t> slots, times;
  TileMemory tileMemory;
  size_t tileBytes = 0, mostBuffers = 0; // of a thread; of a command in tiles
  /// LAPACK's arrays of integers, which are indices to it. Not in the arena,
  /// where commands of a damaged artefact could overwrite them.
  std::vector<int32_t> integers;
};
} // namespace

std::unique_ptr<Device> scalify::rt::makeCpuDevice(int threads) {
  return std::make_unique<CpuDevice>(threads);
}
