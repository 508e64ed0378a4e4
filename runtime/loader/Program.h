// What an artefact says, checked: buffers, arguments, results and the commands
// of each function. Everything that runs a step works on this, and may trust
// every index, offset and extent in it.
#ifndef SCALIFY_RUNTIME_LOADER_PROGRAM_H
#define SCALIFY_RUNTIME_LOADER_PROGRAM_H

#include "blas/Gemm.h"
#include "comm/Communicator.h"
#include "loader/AttentionShape.h"
#include "scalify/runtime.h"
#include "support/Types.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace scalify::rt {

/// What a cast counts: saturated, flushed, zeros, NaNs, those at the top; and
/// its scales.
constexpr size_t counterWords = SCALIFY_RT_COUNTER_WORDS;
/// The last word of a cast: one in the upper bits for each scale by which it
/// was cast, below them the sum of these scales' bits without the last.
constexpr size_t scaleWord = 5;
constexpr int scaleShift = 15, scaleBits = 40;

/// Streams of a function at most.
constexpr int32_t mostStreams = 16;

/// A kernel computes rows [lo, hi) of its outermost loop.
using KernelFn = void (*)(void *const *buffers, int64_t lo, int64_t hi,
                          uint64_t *counters);

struct Buffer {
  enum class Kind : uint8_t { Arg, Result, Temp, Const, Rank };
  Kind kind = Kind::Temp;
  int32_t index = 0;  // which argument or result
  int64_t offset = 0; // bytes from the start of the memory it lies in
  TensorType type;

  bool isReadOnly() const { return kind == Kind::Const || kind == Kind::Rank; }
};

struct Argument {
  std::string name;
  std::string role;
  TensorType type;
  int32_t aliasResult = -1;
  /// log2 of the F32 elements that it starts from; empty for zeros.
  std::vector<int32_t> initialExponents;

  /// State that the compiler added: whoever runs the step keeps it.
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

/// Which elements of an FP8 operand share a scale: all of them, those of a row
/// (of the matrix that has the sum's dimension innermost), 128 of a row, or 128
/// of 128 rows each.
enum class Scaling : uint8_t { Tensor, Rows, Vectors, Blocks };

/// What is done to the sums of a product before they are stored.
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

/// What a product on a GPU is made of; a CPU multiplies f32 only.
struct GemmTypes {
  std::array<DType, 3> operands = {DType::F32, DType::F32, DType::F32};
  /// Places of the scales in the command's buffers, or -1.
  int32_t aScale = -1, bScale = -1;
  Scaling aScaling = Scaling::Tensor, bScaling = Scaling::Tensor;
  /// Of a result of FP8: places of the scale by which the sums are multiplied,
  /// and of their largest magnitude, or -1.
  int32_t cScale = -1, amax = -1;
  bool isTF32 = false;
  bool isFastAccumulation = false;
  Epilogue epilogue = Epilogue::None;
  /// The bias: its place in the command's buffers, or -1, the byte it begins
  /// at there, and its type.
  int32_t bias = -1;
  int64_t biasOffset = 0;
  DType biasType = DType::F32;
  /// Place of what a ReLU or GELU keeps for its gradient, or -1: stored in the
  /// forward, read by a gradient.
  int32_t aux = -1;
};

/// One entry of a function's list. The fields in use depend on `op`.
struct Command {
  enum class Op : uint8_t {
    Kernel,
    Gemm,
    Attention,
    HostCall,
    Collective,
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
  /// On a CPU: run by another thread than the one that computes.
  bool isBeside = false;
  int64_t bytes = 0; // memory traffic; for copy and fill also the length

  // Kernel.
  std::string symbol;
  KernelFn kernel = nullptr; // set when the kernels are loaded
  std::vector<int32_t> buffers;
  int64_t rows = 0;    // on a GPU: blocks that have something to do
  int32_t threads = 0; // of a block, on a GPU
  int64_t grain = 1;
  int64_t rowsPerTask = 1; // a multiple of grain, fixed at load
  std::vector<int32_t> counters;

  // Gemm: buffers {a, b, c} and byte offsets into them; on a GPU, behind them
  // the scales of a, b and c where they have some, the largest magnitude of c,
  // the bias, and what a GELU reads.
  GemmShape gemm;
  GemmPlan gemmPlan;
  GemmTypes gemmTypes;
  std::array<int64_t, 3> gemmOffsets = {0, 0, 0};

  // Attention: of a GPU; AttentionShape.h names the buffers.
  AttentionShape attention;

  // HostCall: of a CPU; buffers that are read, then those that are written,
  // then a boolean that says whether, then what it leaves zero.
  int32_t numReads = 0, numWrites = 0;
  int32_t when = -1, done = -1; // places in the command's buffers
  int32_t hostCall = -1;        // among the program's

  // Collective: buffers {src, dst}. Members are those of the rank's own group,
  // which is found in `groups` when the rank is known; of a permute these are
  // pairs (from, to).
  Collective collective;
  std::vector<std::vector<int32_t>> groups;

  // Copy: buffers {src, dst}; fill: buffers {dst}.
  uint8_t fillByte = 0;

  // Record and wait: which of the function's events.
  int32_t event = 0;

  int64_t tasks() const { return rows == 0 ? 0 : (rows - 1) / rowsPerTask + 1; }
};

/// What a function takes and gives, and the memory that its commands name.
struct Interface {
  int64_t arenaBytes = 0;
  std::vector<Buffer> buffers;
  std::vector<Argument> args;
  std::vector<Result> results;
};

struct Function {
  std::string name;
  std::vector<Command> commands;
  /// Of its own; else it is the program's.
  std::optional<Interface> own;

  bool counts() const;
  /// The first command that calls the process that runs it, or null.
  const Command *firstHostCall() const;
  /// Whether ranks meet in it.
  bool exchanges() const;
  int32_t streams() const;
  int32_t events() const;
};

struct Section {
  int64_t offset = 0;
  int64_t size = 0;
};

/// The program's interface is that of the step.
struct Program : Interface {
  std::string target, mcpu, recipe, hash;
  int32_t ranks = 1;
  /// Of a stage of a pipeline, which is what groups of collectives and the
  /// number of a rank are about; peers of messages are stages.
  int32_t stageRanks = 1;
  Section kernels, constants;
  std::optional<Section> cubin;
  std::vector<Counter> counters;
  std::vector<Function> functions;

  const Function *find(const std::string &name) const;
  bool isGpu() const { return target != "cpu"; }
  /// Functions run one after another and leave nothing in the arena.
  int64_t mostArenaBytes() const;
  const Interface &interfaceOf(const Function &function) const {
    return function.own ? *function.own : *this;
  }
};

const char *name(Command::Op op);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_PROGRAM_H
