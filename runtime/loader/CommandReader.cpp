#include "loader/CommandReader.h"
#include "loader/AttentionReader.h"
#include "loader/CollectiveReader.h"
#include "loader/HostCallReader.h"
#include "loader/LapackReader.h"
#include "loader/LoopReader.h"
#include "loader/Manifest.h"
#include "support/FloatFormats.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

using namespace scalify::rt;

const char *scalify::rt::name(Command::Op op) {
  switch (op) {
  case Command::Op::Kernel:
    return "kernel";
  case Command::Op::Gemm:
    return "gemm";
  case Command::Op::Attention:
    return "attention";
  case Command::Op::HostCall:
    return "host_call";
  case Command::Op::Lapack:
    return "lapack";
  case Command::Op::Collective:
    return "collective";
  case Command::Op::Loop:
    return "loop";
  case Command::Op::Copy:
    return "copy";
  case Command::Op::Fill:
    return "fill";
  case Command::Op::Record:
    return "record";
  case Command::Op::Wait:
    return "wait";
  }
  return "";
}

int32_t scalify::rt::bufferIndex(const JsonNode &node,
                                 const Interface &interface) {
  return node.index(interface.buffers.size(), "buffers");
}

void scalify::rt::requireWritable(const JsonNode &node, int32_t index,
                                  const Interface &interface) {
  const Buffer &buffer = interface.buffers[index];
  if (buffer.isReadOnly())
    node.fail("is written to, but buffer " + std::to_string(index) +
              " is read only");
  // Its memory may be anyone's: constants of a loop's caller, or an array that
  // the user of the step still reads.
  if (buffer.kind == Buffer::Kind::Arg &&
      interface.args[buffer.index].aliasResult < 0)
    node.fail("is written to, but buffer " + std::to_string(index) +
              " is argument " + std::to_string(buffer.index) +
              ", which is not donated");
}

void scalify::rt::addBytes(Command &command, const Buffer &buffer) {
  if (__builtin_add_overflow(command.bytes, buffer.type.bytes, &command.bytes))
    command.bytes = INT64_MAX;
}

void scalify::rt::checkWrittenOnce(const JsonNode &node,
                                   const GemmShape &gemm) {
  std::vector<std::pair<int64_t, int64_t>> dims = {{gemm.c.row, gemm.m},
                                                   {gemm.c.col, gemm.n}};
  for (const BatchDim &dim : gemm.batch)
    dims.push_back({dim.c, dim.n});
  for (auto [stride, extent] : dims)
    if (extent == 0)
      return;
  std::sort(dims.begin(), dims.end());
  int64_t last = 0; // of the dimensions before
  for (auto [stride, extent] : dims) {
    if (extent > 1 && stride <= last)
      node["c"].fail("has strides by which elements are written twice");
    last += (extent - 1) * stride;
  }
}

int64_t scalify::rt::chooseRowsPerTask(int64_t rows, int64_t grain,
                                       int64_t bytes) {
  // At most 64 tasks: enough to balance many cores, few enough that dispatch is
  // negligible. At least 64 KiB of traffic each: with less, one core finishes
  // before another has woken up.
  constexpr int64_t maxTasks = 64;
  constexpr int64_t minTaskBytes = 64 * 1024;
  if (rows <= grain)
    return std::max<int64_t>(rows, 1);
  int64_t tasks = maxTasks;
  if (bytes > 0)
    tasks = std::clamp<int64_t>(bytes / minTaskBytes, 1, maxTasks);
  int64_t perTask = (rows - 1) / tasks + 1;
  int64_t grains = (perTask - 1) / grain + 1;
  return grains > rows / grain ? rows : grains * grain;
}

namespace {
constexpr int64_t maxBlockThreads = 1024; // per block on any NVIDIA GPU
constexpr const char *operandNames[] = {"a", "b", "c"};

void readKernel(const JsonNode &node, const Interface &interface,
                const Program &program, Command &command) {
  command.symbol = node["symbol"].text();
  JsonNode buffers = node["bufs"];
  for (size_t i = 0; i < buffers.size(); ++i)
    command.buffers.push_back(bufferIndex(buffers.at(i), interface));
  command.rows = node["rows"].atLeast(0);
  command.grain = node["grain"].atLeast(1);
  command.bytes = std::max<int64_t>(node.integerOr("bytes", 0), 0);
  if (command.bytes == 0)
    for (int32_t buffer : command.buffers)
      addBytes(command, interface.buffers[buffer]);
  if (node.has("counters")) {
    JsonNode counters = node["counters"];
    for (size_t i = 0; i < counters.size(); ++i)
      command.counters.push_back(
          counters.at(i).index(program.counters.size(), "counters"));
  }
  if (node.has("elements")) {
    JsonNode elements = node["elements"];
    if (elements.size() != command.counters.size())
      elements.fail("must be as many as the counters");
    for (size_t i = 0; i < elements.size(); ++i)
      command.elements.push_back(uint64_t(elements.at(i).atLeast(0)));
  }
  if (program.isGpu()) {
    int64_t threads = node["threads"].atLeast(1);
    if (threads > maxBlockThreads)
      node["threads"].fail("is " + std::to_string(threads) +
                           ", more than a block's 1024");
    command.threads = static_cast<int32_t>(threads);
  }
  command.rowsPerTask =
      chooseRowsPerTask(command.rows, command.grain, command.bytes);
}

Strides readStrides(const JsonNode &node) {
  if (node.size() != 2)
    node.fail("must hold a row and a column stride");
  return {node.at(0).atLeast(0), node.at(1).atLeast(0)};
}

/// Checks that each type can be multiplied at all. The combinations of types
/// and layouts are cuBLASLt's own contract, and checked there.
void checkTypes(const Command &command, const Interface &interface,
                const Program &program) {
  for (int i = 0; i < 3; ++i) {
    DType type = command.gemmTypes.operands[i];
    std::string what = "gemm '" + command.name + "' has operand " +
                       operandNames[i] + " of type " +
                       toString(interface.buffers[command.buffers[i]].type);
    bool isPair =
        command.gemmTypes.operands[0] == command.gemmTypes.operands[1];
    bool isRead = type == DType::F32 || (i < 2 && type == DType::BF16);
    if (!program.isGpu() && !(isRead && isPair))
      unsupported(what + "; a CPU multiplies f32 by f32 and bf16 by bf16 to "
                         "f32, convert it first");
    if (!isNarrowFloat(type))
      unsupported(what + "; a GPU multiplies f8E4M3FN, f8E5M2, bf16, f16 and "
                         "f32, convert it first");
  }
}

Scaling readScaling(const JsonNode &node, const char *key) {
  constexpr const char *names[] = {"tensor", "rows", "vectors", "blocks"};
  std::string text = node.textOr(key, names[0]);
  for (size_t i = 0; i < std::size(names); ++i)
    if (text == names[i])
      return static_cast<Scaling>(i);
  node[key].fail("is '" + text + "', not tensor, rows, vectors or blocks");
}

/// Returns the number of an operand's scales; for blocks, rows of scales are
/// padded to multiples of 4.
int64_t countScales(Scaling scaling, int64_t rows, int64_t k) {
  constexpr int64_t block = 128;
  auto parts = [](int64_t extent, int64_t size) {
    return extent == 0 ? 0 : (extent - 1) / size + 1;
  };
  switch (scaling) {
  case Scaling::Tensor:
    return 1;
  case Scaling::Rows:
    return rows;
  case Scaling::Vectors:
    return rows * parts(k, block);
  case Scaling::Blocks:
    return parts(rows, block) * parts(parts(k, block), 4) * 4;
  }
  return 0;
}

int32_t readScale(const JsonNode &node, const char *key, DType operand,
                  int64_t count, const Interface &interface, Command &command) {
  if (!node.has(key))
    return -1;
  int32_t buffer = bufferIndex(node[key], interface);
  const TensorType &type = interface.buffers[buffer].type;
  if (!isFP8(operand))
    node[key].fail("scales an operand of type " + std::string(name(operand)) +
                   "; only FP8 operands have scales");
  if (type.dtype != DType::F32 || type.elements != count)
    node[key].fail("is buffer " + std::to_string(buffer) + " of type " +
                   toString(type) + ", not " +
                   (count == 1 ? "one" : std::to_string(count)) + " f32");
  command.buffers.push_back(buffer);
  return static_cast<int32_t>(command.buffers.size()) - 1;
}

/// Reads the scales of both operands; a product with many scales reads all of
/// them.
void readScales(const JsonNode &node, const Interface &interface,
                Command &command) {
  GemmTypes &types = command.gemmTypes;
  const GemmShape &gemm = command.gemm;
  types.aScaling = readScaling(node, "a_scaling");
  types.bScaling = readScaling(node, "b_scaling");
  types.aScale = readScale(node, "a_scale", types.operands[0],
                           countScales(types.aScaling, gemm.m, gemm.k),
                           interface, command);
  types.bScale = readScale(node, "b_scale", types.operands[1],
                           countScales(types.bScaling, gemm.n, gemm.k),
                           interface, command);
  if (types.aScaling != Scaling::Tensor && types.aScale < 0)
    node["a_scaling"].fail("has no a_scale beside it");
  if (types.bScaling != Scaling::Tensor && types.bScale < 0)
    node["b_scaling"].fail("has no b_scale beside it");
}

/// Reads one F32 of an FP8 result: its scale or amax.
int32_t readNumber(const JsonNode &node, const Interface &interface,
                   Command &command) {
  int32_t buffer = bufferIndex(node, interface);
  const TensorType &type = interface.buffers[buffer].type;
  if (!isFP8(command.gemmTypes.operands[2]))
    node.fail("is of a result of type " +
              std::string(name(command.gemmTypes.operands[2])) +
              "; only FP8 results have one");
  if (type.dtype != DType::F32 || type.elements != 1)
    node.fail("is buffer " + std::to_string(buffer) + " of type " +
              toString(type) + ", not one f32");
  command.buffers.push_back(buffer);
  return static_cast<int32_t>(command.buffers.size()) - 1;
}

/// Reads scale and amax of an FP8 result.
void readNarrowResult(const JsonNode &node, const Interface &interface,
                      Command &command) {
  if (isFP8(command.gemmTypes.operands[2]) && command.gemm.beta != 0)
    node["beta"].fail("adds to a result of FP8, which is overwritten");
  if (node.has("c_scale"))
    command.gemmTypes.cScale = readNumber(node["c_scale"], interface, command);
  if (!node.has("amax"))
    return;
  command.gemmTypes.amax = readNumber(node["amax"], interface, command);
  requireWritable(node["amax"], command.buffers.back(), interface);
}

/// Reads a vector of n elements that is added to every row. Its type is checked
/// by cuBLASLt's own contract.
void readBias(const JsonNode &node, const Interface &interface,
              Command &command) {
  GemmTypes &types = command.gemmTypes;
  int32_t buffer = bufferIndex(node["bias"], interface);
  const TensorType &type = interface.buffers[buffer].type;
  int64_t offset = node.has("bias_off") ? node["bias_off"].atLeast(0) : 0;
  if (!isNarrowFloat(type.dtype))
    node["bias"].fail("is buffer " + std::to_string(buffer) + " of type " +
                      toString(type) + ", which no product adds");
  if (command.gemm.n > type.elements || offset > type.elements - command.gemm.n)
    node["bias"].fail("reaches past the end of buffer " +
                      std::to_string(buffer) + " of type " + toString(type));
  if (command.gemmPlan.swapped)
    node["bias"].fail("is added to rows that are not contiguous");
  types.biasType = type.dtype;
  types.biasOffset = offset * byteWidth(type.dtype);
  command.buffers.push_back(buffer);
  types.bias = static_cast<int32_t>(command.buffers.size()) - 1;
}

bool addsBias(Epilogue epilogue) {
  return epilogue == Epilogue::Bias || epilogue == Epilogue::BiasReLU ||
         epilogue == Epilogue::BiasGELU;
}

bool isGradient(Epilogue epilogue) {
  return epilogue == Epilogue::ReLUGrad || epilogue == Epilogue::GELUGrad;
}

bool hasReLU(Epilogue epilogue) {
  return epilogue == Epilogue::ReLU || epilogue == Epilogue::BiasReLU ||
         epilogue == Epilogue::ReLUGrad;
}

/// Checks a mask of one bit per element, each row padded to a multiple of 128
/// bits.
void checkMask(const JsonNode &node, const TensorType &type,
               const Command &command) {
  constexpr int64_t rowBits = 128;
  const GemmShape &gemm = command.gemm;
  int64_t rowBytes = (gemm.n + rowBits - 1) / rowBits * rowBits / 8;
  bool fits = gemm.n == 0 ? type.elements == 0
                          : type.elements % rowBytes == 0 &&
                                type.elements / rowBytes == gemm.m;
  if (type.dtype != DType::U8 || !fits)
    node.fail("is of type " + toString(type) + ", not the bits of " +
              std::to_string(gemm.m) + " rows in " + std::to_string(rowBytes) +
              " bytes each");
  if (!gemm.batch.empty() || command.gemmPlan.swapped)
    node.fail("must be the mask of one product, with contiguous rows");
}

/// Checks that the operand of a GELU is in a buffer like the result's, with its
/// strides.
void checkLike(const JsonNode &node, const TensorType &type,
               const TensorType &result, const Command &command) {
  if (type.dtype != result.dtype || type.elements != result.elements ||
      command.gemmOffsets[2] != 0 || command.gemmPlan.swapped)
    node.fail("is of type " + toString(type) +
              ", which is not laid out like the result of " + toString(result));
}

/// Reads the buffer that a ReLU or GELU stores for its gradient, or that the
/// gradient reads.
void readAux(const JsonNode &node, const Interface &interface,
             Command &command) {
  Epilogue epilogue = command.gemmTypes.epilogue;
  int32_t buffer = bufferIndex(node, interface);
  const TensorType &type = interface.buffers[buffer].type;
  if (hasReLU(epilogue))
    checkMask(node, type, command);
  else
    checkLike(node, type, interface.buffers[command.buffers[2]].type, command);
  if (!isGradient(epilogue))
    requireWritable(node, buffer, interface);
  command.buffers.push_back(buffer);
  command.gemmTypes.aux = static_cast<int32_t>(command.buffers.size()) - 1;
}

void readEpilogue(const JsonNode &node, const Interface &interface,
                  Command &command) {
  constexpr const char *names[] = {"none",      "bias",     "relu",
                                   "bias_relu", "gelu",     "bias_gelu",
                                   "relu_grad", "gelu_grad"};
  std::string text = node.textOr("epilogue", names[0]);
  const auto *found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names))
    node["epilogue"].fail("is '" + text +
                          "', not none, bias, relu, bias_relu, gelu, "
                          "bias_gelu, relu_grad or gelu_grad");
  Epilogue epilogue = static_cast<Epilogue>(found - std::begin(names));
  if (node.has("bias") && !addsBias(epilogue))
    node["bias"].fail("has no epilogue that adds it");
  command.gemmTypes.epilogue = epilogue;
  if (addsBias(epilogue))
    readBias(node, interface, command);
  bool isPlain = epilogue == Epilogue::None || epilogue == Epilogue::Bias;
  if (node.has("aux") && (isPlain || isGradient(epilogue)))
    node["aux"].fail("has no ReLU or GELU that stores it");
  if (node.has("saved") && !isGradient(epilogue))
    node["saved"].fail("has no gradient that reads it");
  if (isGradient(epilogue))
    readAux(node["saved"], interface, command);
  else if (node.has("aux"))
    readAux(node["aux"], interface, command);
}

void readGpuGemm(const JsonNode &node, const Interface &interface,
                 Command &command) {
  GemmTypes &types = command.gemmTypes;
  readScales(node, interface, command);
  readNarrowResult(node, interface, command);
  std::string compute = node.textOr("compute", "f32");
  if (compute != "f32" && compute != "tf32")
    node["compute"].fail("is '" + compute + "', neither f32 nor tf32");
  types.isTF32 = compute == "tf32";
  if (types.isTF32 && types.operands[0] != DType::F32)
    node["compute"].fail("is 'tf32', which is for f32 operands");
  types.isFastAccumulation =
      node.has("fast_accumulation") && node["fast_accumulation"].boolean();
  if (types.isFastAccumulation && !isFP8(types.operands[0]))
    node["fast_accumulation"].fail("is for FP8 operands");
  readEpilogue(node, interface, command);
}

/// Checks that the largest element of each operand is in its buffer.
void checkGemmExtents(const JsonNode &node, const Interface &interface,
                      const Command &command) {
  for (int operand = 0; operand < 3; ++operand) {
    const Buffer &buffer = interface.buffers[command.buffers[operand]];
    int64_t last = 0;
    if (!command.gemm.lastElement(operand, last) ||
        __builtin_add_overflow(last, command.gemmOffsets[operand], &last) ||
        last >= buffer.type.elements)
      node[operandNames[operand]].fail(
          "reaches past the end of buffer " +
          std::to_string(command.buffers[operand]) + " of type " +
          toString(buffer.type));
  }
}

void readShape(const JsonNode &node, GemmShape &gemm) {
  gemm.m = node["m"].atLeast(0);
  gemm.n = node["n"].atLeast(0);
  gemm.k = node["k"].atLeast(0);
  gemm.a = readStrides(node["a_strides"]);
  gemm.b = readStrides(node["b_strides"]);
  gemm.c = readStrides(node["c_strides"]);
  gemm.alpha = node.has("alpha") ? float(node["alpha"].number()) : 1.0f;
  gemm.beta = node.has("beta") ? float(node["beta"].number()) : 0.0f;
  if (node.has("batch")) {
    JsonNode batch = node["batch"];
    for (size_t i = 0; i < batch.size(); ++i) {
      JsonNode dim = batch.at(i);
      gemm.batch.push_back({dim["n"].atLeast(0), dim["a"].atLeast(0),
                            dim["b"].atLeast(0), dim["c"].atLeast(0)});
    }
  }
}

void readGemm(const JsonNode &node, const Interface &interface,
              const Program &program, Command &command) {
  std::string dtype = node.textOr("dtype", "f32");
  if (dtype != "f32" && !program.isGpu())
    unsupported("gemm '" + command.name + "' has dtype '" + dtype +
                "'; a CPU writes f32 only, convert it afterwards");
  if (node.has("epilogue") && !program.isGpu())
    unsupported("gemm '" + command.name +
                "' has an epilogue, which a CPU lacks; compile the program "
                "for the CPU, where a kernel computes it");
  readShape(node, command.gemm);
  const char *offsets[] = {"a_off", "b_off", "c_off"};
  for (int i = 0; i < 3; ++i) {
    command.buffers.push_back(bufferIndex(node[operandNames[i]], interface));
    command.gemmTypes.operands[i] =
        interface.buffers[command.buffers.back()].type.dtype;
    if (node.has(offsets[i]))
      command.gemmOffsets[i] = node[offsets[i]].atLeast(0);
  }
  checkTypes(command, interface, program);
  requireWritable(node["c"], command.buffers[2], interface);
  checkGemmExtents(node, interface, command);
  // On a GPU, cuBLASLt's contract says so; of tiles, their reader.
  if (!program.isGpu() && !node.has("tiles"))
    checkWrittenOnce(node, command.gemm);
  std::string reason = planGemm(command.gemm, command.gemmPlan);
  if (!reason.empty())
    unsupported("gemm '" + command.name + "': " + reason);
  for (int i = 0; i < 3; ++i) {
    command.gemmOffsets[i] *= byteWidth(command.gemmTypes.operands[i]);
    addBytes(command, interface.buffers[command.buffers[i]]);
  }
  if (program.isGpu())
    readGpuGemm(node, interface, command);
}

void checkLength(const JsonNode &node, const Interface &interface,
                 const Command &command) {
  for (int32_t index : command.buffers)
    if (command.bytes > interface.buffers[index].type.bytes)
      node["bytes"].fail("is " + std::to_string(command.bytes) +
                         ", more than the " +
                         std::to_string(interface.buffers[index].type.bytes) +
                         " of buffer " + std::to_string(index));
}
/// Returns the memory of a buffer: a donated argument is its result's, too.
std::pair<Buffer::Kind, int32_t> memoryOf(const Buffer &buffer,
                                          const Interface &interface) {
  if (buffer.kind == Buffer::Kind::Result)
    if (int32_t arg = interface.results[buffer.index].aliasArg; arg >= 0)
      return {Buffer::Kind::Arg, arg};
  return {buffer.kind, buffer.index};
}

/// Checks that the copied bytes are apart, or all at their place already: a
/// copy is done in parts, in any order.
void checkApart(const JsonNode &node, const Interface &interface,
                const Command &command) {
  const Buffer &from = interface.buffers[command.buffers[0]];
  const Buffer &to = interface.buffers[command.buffers[1]];
  int64_t distance = std::abs(from.offset - to.offset);
  if (memoryOf(from, interface) == memoryOf(to, interface) && distance &&
      distance < command.bytes)
    node["dst"].fail("is " + std::to_string(distance) +
                     " bytes from 'src', and the copied " +
                     std::to_string(command.bytes) + " bytes overlap");
}
} // namespace

Command scalify::rt::readCommand(const JsonNode &node,
                                 const Interface &interface,
                                 const Program &program, size_t numCommands) {
  Command command;
  std::string op = node["op"].text();
  command.name = node.textOr("name", op.c_str());
  command.loc = node.textOr("loc", "");
  if (node.has("stream"))
    command.stream = node["stream"].index(maxStreams, "streams");
  command.isUpdate = node.has("update") && node["update"].boolean();
  if (op == "kernel") {
    command.op = Command::Op::Kernel;
    readKernel(node, interface, program, command);
  } else if (op == "gemm") {
    command.op = Command::Op::Gemm;
    readGemm(node, interface, program, command);
  } else if (op == "attention" && program.isGpu()) {
    command.op = Command::Op::Attention;
    if (command.stream != 0)
      unsupported("attentions share one work space, and run on stream 0");
    readAttention(node, interface, command);
  } else if (op == "host_call" && !program.isGpu()) {
    command.op = Command::Op::HostCall;
    readHostCall(node, interface, command);
  } else if (op == "loop") {
    command.op = Command::Op::Loop;
    readLoop(node, interface, command);
  } else if (op == "lapack" && !program.isGpu()) {
    command.op = Command::Op::Lapack;
    readLapack(node, interface, command);
  } else if (op == "collective") {
    command.op = Command::Op::Collective;
    readCollective(node, interface, program, command);
  } else if (op == "copy") {
    command.op = Command::Op::Copy;
    command.buffers = {bufferIndex(node["src"], interface),
                       bufferIndex(node["dst"], interface)};
    command.bytes = node["bytes"].atLeast(0);
    requireWritable(node["dst"], command.buffers[1], interface);
    checkLength(node, interface, command);
    checkApart(node, interface, command);
  } else if (op == "fill") {
    command.op = Command::Op::Fill;
    command.buffers = {bufferIndex(node["dst"], interface)};
    command.bytes = node["bytes"].atLeast(0);
    command.fillByte = static_cast<uint8_t>(node["byte"].index(256, "bytes"));
    requireWritable(node["dst"], command.buffers[0], interface);
    checkLength(node, interface, command);
  } else if (op == "record" || op == "wait") {
    command.op = op == "record" ? Command::Op::Record : Command::Op::Wait;
    command.event = node["event"].index(numCommands, "commands");
  } else {
    unsupported(
        "command '" + op +
        "' is not one this runtime runs (kernel, gemm, collective, "
        "loop, copy, fill, record, wait; lapack and host_call on a CPU, "
        "attention on a GPU)");
  }
  return command;
}
