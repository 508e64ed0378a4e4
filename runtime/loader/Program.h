// The checked content of an artefact: buffers, arguments, results and the
// commands of each function. All code that runs a step works on it, and may
// trust every index, offset and extent.
#ifndef SCALIFY_RUNTIME_LOADER_PROGRAM_H
#define SCALIFY_RUNTIME_LOADER_PROGRAM_H

#include "blas/Gemm.h"
#include "blas/Lapack.h"
#include "comm/Communicator.h"
#include "loader/AttentionShape.h"
#include "scalify/runtime.h"
#include "support/Types.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace scalify::rt {

/// Words that a cast counts: saturated, flushed, zeros, NaNs, values near the
/// top, and its scales.
constexpr size_t counterWords = SCALIFY_RT_COUNTER_WORDS;
/// The last word of a cast: in the upper bits, from `scaleBits` on, the number
/// of its scales; below, the sum of their F32 bits without the lowest
/// `scaleShift`.
constexpr size_t scaleWord = 5;
constexpr int scaleShift = 15, scaleBits = 40;

/// The maximal number of a function's streams.
constexpr int32_t maxStreams = 16;

/// A kernel computes rows [lo, hi) of its outermost loop.
using KernelFn = void (*)(void *const *buffers, int64_t lo, int64_t hi,
                          uint64_t *counters);

struct Buffer {
  enum class Kind : uint8_t { Arg, Result, Temp, Const, Rank, Tile };
  Kind kind = Kind::Temp;
  int32_t index = 0;  // which argument or result
  int64_t offset = 0; // bytes from the start of the memory that contains it
  int64_t tiles = 0;  // of Tile: the memory holds one of as many
  TensorType type;

  bool isReadOnly() const { return kind == Kind::Const || kind == Kind::Rank; }
};

struct Argument {
  std::string name;
  std::string role;
  TensorType type;
  int32_t aliasResult = -1;
  /// A trial does not write its memory.
  bool isSpared = false;
  /// log2 of the initial F32 elements; empty for zeros.
  std::vector<int32_t> initialExponents;

  /// True for state that the compiler added: the caller of the step keeps it.
  bool isKept() const { return name.rfind("scalify.", 0) == 0; }
};

struct Result {
  std::string name;
  TensorType type;
  int32_t aliasArg = -1;
};

struct Counter {
  std::string cast, op, loc, format;
  uint64_t elements = 0;
};

/// The elements of an FP8 operand that share a scale: all, a row (of the matrix
/// whose innermost dimension is the sum's), 128 of a row, or 128 of 128 rows
/// each.
enum class Scaling : uint8_t { Tensor, Rows, Vectors, Blocks };

/// The operation on the sums of a product before they are stored.
enum class Epilogue : uint8_t {
  None,
  Bias,
  ReLU,
  BiasReLU,
  GELU,
  BiasGELU,
  ReLUGrad,
  GELUGrad
};

/// Types and optional operands of a product on a GPU; a CPU multiplies f32 by
/// f32 and bf16 by bf16, both to f32.
struct GemmTypes {
  std::array<DType, 3> operands = {DType::F32, DType::F32, DType::F32};
  /// Indices of the scales among the command's buffers, or -1.
  int32_t aScale = -1, bScale = -1;
  Scaling aScaling = Scaling::Tensor, bScaling = Scaling::Tensor;
  /// For an FP8 result: indices of the scale of the sums, and of their amax, or
  /// -1.
  int32_t cScale = -1, amax = -1;
  bool isTF32 = false;
  bool isFastAccumulation = false;
  Epilogue epilogue = Epilogue::None;
  /// The bias: its index among the command's buffers, or -1, its first byte
  /// there, and its type.
  int32_t bias = -1;
  int64_t biasOffset = 0;
  DType biasType = DType::F32;
  /// Index of the buffer that a ReLU or GELU keeps for its gradient, or -1:
  /// stored in the forward, read by the gradient.
  int32_t aux = -1;
};

/// A product of which each tile is one index of the first batch dimensions.
struct TiledGemm {
  std::vector<BatchDim> tiled;
  GemmShape shape; // of one tile
  GemmPlan plan;

  /// Returns the first element of a tile in each operand.
  std::array<int64_t, 3> offsetsOf(int64_t tile) const {
    std::array<int64_t, 3> offsets = {0, 0, 0};
    for (size_t i = tiled.size(); i-- > 0;) {
      int64_t index = tile % tiled[i].n;
      tile /= tiled[i].n;
      offsets[0] += index * tiled[i].a;
      offsets[1] += index * tiled[i].b;
      offsets[2] += index * tiled[i].c;
    }
    return offsets;
  }
};

/// A loop's argument that is a slice of a buffer: in each iteration the memory
/// at start + iteration * step, moved to between 0 and `last`, in bytes.
struct LoopSlice {
  int32_t argument = 0; // of the callee
  int64_t start = 0, step = 0, last = 0;
  std::vector<int32_t> buffers; // of the callee, in the argument's memory

  /// Returns where the slice is in iteration `trip`.
  int64_t place(int64_t trip) const {
    int64_t moved = 0;
    // What is beyond 64 bits is past the last place, or before the first.
    if (__builtin_mul_overflow(trip, step, &moved) ||
        __builtin_add_overflow(moved, start, &moved))
      return step < 0 ? 0 : last;
    return std::clamp<int64_t>(moved, 0, last);
  }
};

/// One entry of a function's list. The fields in use depend on `op`.
struct Command {
  enum class Op : uint8_t {
    Kernel,
    Gemm,
    Attention,
    HostCall,
    Lapack,
    Collective,
    Loop,
    Copy,
    Fill,
    Record,
    Wait
  };
  Op op = Op::Kernel;
  std::string name;
  std::string loc;
  size_t index = 0; // among the program's commands
  int32_t stream = 0;
  /// On a CPU: runs on the side thread, beside computation.
  bool isBeside = false;
  /// A trial leaves it out: it writes state, on which no count of a cast and no
  /// moved scale depends. All commands of a group, or none.
  bool isUpdate = false;
  int64_t bytes = 0; // memory traffic; for copy and fill also the length

  // Kernel.
  std::string symbol;
  KernelFn kernel = nullptr; // set when the kernels are loaded
  std::vector<int32_t> buffers;
  int64_t rows = 0;    // on a GPU: blocks that have work
  int32_t threads = 0; // of a block, on a GPU
  int64_t grain = 1;
  int64_t rowsPerTask = 1; // a multiple of grain, fixed at load
  std::vector<int32_t> counters;
  /// Of each counter, the elements of one run, where data decide how often the
  /// command runs; empty where the counters have the elements of all runs.
  std::vector<uint64_t> elements;

  // Gemm: buffers {a, b, c} and byte offsets into them; on a GPU, followed by
  // the optional scales of a, b and c, the amax of c, the bias, and `aux`.
  GemmShape gemm;
  GemmPlan gemmPlan;
  GemmTypes gemmTypes;
  std::array<int64_t, 3> gemmOffsets = {0, 0, 0};

  // Kernels and GEMMs of a group, on a CPU only: neighbours that run tile by
  // tile. The first command has the number of the group's commands. A buffer
  // with a stride is memory of the thread for one tile.
  int64_t tiles = 0, group = -1;
  size_t groupSize = 1;
  std::vector<int64_t> tileStrides;
  TiledGemm tiledGemm;

  // Attention: on a GPU only; AttentionShape.h lists the buffers.
  AttentionShape attention;

  // Lapack: on a CPU only; the buffers that are read, those that are written,
  // and the work space.
  LapackCall lapack;

  // HostCall: on a CPU only; buffers that are read, then those that are
  // written, then an optional boolean that enables the call, then an optional
  // i32 that is set to zero.
  int32_t numReads = 0, numWrites = 0;
  int32_t when = -1, done = -1; // indices among the command's buffers
  int32_t hostCall = -1;        // index among the program's host calls

  // Collective: buffers {src, dst}. Members are those of this rank's group,
  // looked up in `groups` once the rank is known; a permute's groups are pairs
  // (from, to).
  Collective collective;
  std::vector<std::vector<int32_t>> groups;

  // Loop: buffers are the callee's arguments, carries first, then the optional
  // memory of its arena.
  std::string calleeName;
  int32_t callee = -1; // index among the program's functions
  int32_t numCarries =
      0;              // the callee's results, in the memory of its arguments
  int32_t arena = -1; // index among the command's buffers
  int64_t trips = -1; // -1: as long as the carry `condition` is true
  int32_t condition = -1; // index among the carries
  std::vector<LoopSlice> slices;

  // Copy: buffers {src, dst}; fill: buffers {dst}.
  uint8_t fillByte = 0;

  // Record and wait: the index among the function's events.
  int32_t event = 0;

  int64_t tasks() const { return rows == 0 ? 0 : (rows - 1) / rowsPerTask + 1; }
};

/// A function's arguments and results, and the memory of its commands.
struct Interface {
  int64_t arenaBytes = 0;
  int64_t tileBytes = 0; // of each thread, for groups of tiles
  std::vector<Buffer> buffers;
  std::vector<Argument> args;
  std::vector<Result> results;
};

struct Function {
  std::string name;
  std::vector<Command> commands;
  /// The function's own interface; without one, the program's.
  std::optional<Interface> own;
  // Of its commands and those of its loops: whether casts are counted, ranks
  // exchange data, and a loop's length is data; the first command that calls
  // back into the process, or null.
  bool isCounting = false, isExchanging = false, hasOpenLoop = false;
  const Command *firstHostCall = nullptr;
  /// The least number of commands that a run issues. Nested loops may exceed
  /// 2^63.
  double numIssued = 0;
  /// The functions that its loops run, and those that these run.
  std::vector<int32_t> callees;

  int32_t streams() const;
  int32_t events() const;

  /// Calls `fn(first, count)` for each command, or group of tiles, in order.
  template <typename Fn> void forEachGroup(Fn &&fn) const {
    for (size_t i = 0; i < commands.size(); i += commands[i].groupSize)
      fn(commands.data() + i, commands[i].groupSize);
  }
};

struct Section {
  int64_t offset = 0;
  int64_t size = 0;
};

/// The dense rates of a device's data sheet, in bytes and operations per
/// nanosecond.
struct PeakRates {
  /// The driver's name of the device; "" for no data sheet.
  std::string device;
  double bandwidth = 0, f32 = 0, tf32 = 0, bits16 = 0, bits8 = 0;
};

/// The program's interface is that of the step.
struct Program : Interface {
  /// `device` is "cpu" or "cuda".
  std::string target, device, mcpu, recipe, hash;
  /// Of a GPU: the compute capability that the kernels need, ten times the
  /// major version plus the minor one.
  int32_t capability = 0;
  PeakRates peaks;
  int32_t ranks = 1;
  /// The number of ranks in a stage of a pipeline, to which groups of
  /// collectives and the number of a rank refer. Peers of messages are stages.
  int32_t stageRanks = 1;
  Section kernels, constants;
  std::optional<Section> cubin;
  std::vector<Counter> counters;
  std::vector<Function> functions;

  const Function *find(const std::string &name) const;
  /// False if the artefact was compiled for its plan alone.
  bool hasKernels() const { return kernels.size > 0; }
  bool isGpu() const { return device == "cuda"; }
  /// The largest arena. Functions run one after another and keep nothing in it.
  int64_t maxArenaBytes() const;
  int64_t maxTileBytes() const;
  const Interface &interfaceOf(const Function &function) const {
    return function.own ? *function.own : *this;
  }
};

const char *name(Command::Op op);
/// Throws the error of a program without kernels whose step is run.
[[noreturn]] void failWithoutKernels();

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_PROGRAM_H
