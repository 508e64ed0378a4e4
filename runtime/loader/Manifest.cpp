#include "loader/Manifest.h"
#include "loader/CommandReader.h"
#include "loader/JsonNode.h"
#include "loader/LoopReader.h"
#include "loader/TileReader.h"

#include <algorithm>
#include <array>

using namespace scalify::rt;

const Function *Program::find(const std::string &name) const {
  // In the order of JSON's keys, which is that of their names.
  auto at = std::lower_bound(functions.begin(), functions.end(), name,
                             [](const Function &function, const auto &other) {
                               return function.name < other;
                             });
  return at != functions.end() && at->name == name ? &*at : nullptr;
}

void scalify::rt::failWithoutKernels() {
  badArtefact("the artefact holds a plan without kernels: compile it without "
              "plan-only to run it");
}

int64_t Program::maxTileBytes() const {
  int64_t bytes = tileBytes;
  for (const Function &function : functions)
    bytes = std::max(bytes, interfaceOf(function).tileBytes);
  return bytes;
}

int64_t Program::maxArenaBytes() const {
  int64_t bytes = arenaBytes;
  for (const Function &function : functions)
    bytes = std::max(bytes, interfaceOf(function).arenaBytes);
  return bytes;
}

int32_t Function::streams() const {
  int32_t most = 0;
  for (const Command &command : commands)
    most = std::max(most, command.stream);
  return most + 1;
}

int32_t Function::events() const {
  int32_t count = 0;
  for (const Command &command : commands)
    if (command.op == Command::Op::Record)
      count = std::max(count, command.event + 1);
  return count;
}

namespace {
constexpr int64_t pageSize = 4096;

Section readSection(const JsonNode &node, int64_t fileSize) {
  Section section;
  section.offset = node["offset"].atLeast(0);
  section.size = node["size"].atLeast(0);
  if (section.offset % pageSize)
    node.fail("starts at " + std::to_string(section.offset) +
              ", not a multiple of 4096");
  if (section.offset > fileSize || section.size > fileSize - section.offset)
    node.fail("lies outside the file of " + std::to_string(fileSize) +
              " bytes");
  return section;
}

void readInitial(const JsonNode &node, Argument &arg) {
  if (!node.has("initial_exp"))
    return;
  JsonNode list = node["initial_exp"];
  if (arg.type.dtype != DType::F32 ||
      static_cast<int64_t>(list.size()) != arg.type.elements)
    list.fail("must have one exponent for each element of f32");
  for (size_t i = 0; i < list.size(); ++i) {
    int64_t exponent = list.at(i).atLeast(-126);
    if (exponent > 127)
      list.at(i).fail("must be at most 127");
    arg.initialExponents.push_back(static_cast<int32_t>(exponent));
  }
}

void readArgs(const JsonNode &list, Interface &interface) {
  for (size_t i = 0; i < list.size(); ++i) {
    JsonNode node = list.at(i);
    Argument arg;
    arg.name = node.textOr("name", "");
    if (arg.name.empty())
      arg.name = "arg" + std::to_string(i);
    arg.role = node.textOr("role", "input");
    arg.type = node.tensor();
    arg.aliasResult = static_cast<int32_t>(
        std::clamp<int64_t>(node.integerOr("alias_result", -1), -1, INT32_MAX));
    arg.isSpared = node.has("spared") && node["spared"].boolean();
    readInitial(node, arg);
    interface.args.push_back(std::move(arg));
  }
}

void readResults(const JsonNode &list, Interface &interface) {
  for (size_t i = 0; i < list.size(); ++i) {
    JsonNode node = list.at(i);
    Result result;
    result.name = node.textOr("name", "");
    if (result.name.empty())
      result.name = "result" + std::to_string(i);
    result.type = node.tensor();
    if (node.has("alias_arg")) {
      result.aliasArg = node["alias_arg"].index(interface.args.size(), "args");
      const Argument &arg = interface.args[result.aliasArg];
      if (!(arg.type == result.type))
        node.fail("has type " + toString(result.type) +
                  " but shares memory with an argument of type " +
                  toString(arg.type));
      if (arg.aliasResult != static_cast<int64_t>(i))
        node.fail("claims argument " + std::to_string(result.aliasArg) +
                  ", whose alias_result is " + std::to_string(arg.aliasResult));
    }
    interface.results.push_back(std::move(result));
  }
  for (size_t i = 0; i < interface.args.size(); ++i) {
    int32_t alias = interface.args[i].aliasResult;
    if (alias >= 0 && (static_cast<size_t>(alias) >= interface.results.size() ||
                       interface.results[alias].aliasArg != int64_t(i)))
      badArtefact("bad manifest: args[" + std::to_string(i) +
                  "].alias_result is " + std::to_string(alias) +
                  ", and that result does not name the argument back");
  }
}

/// Returns the bytes of the memory that the buffer's kind and index refer to.
int64_t extentOf(const Buffer &buffer, const Interface &interface,
                 const Program &program) {
  switch (buffer.kind) {
  case Buffer::Kind::Arg:
    return interface.args[buffer.index].type.bytes;
  case Buffer::Kind::Result:
    return interface.results[buffer.index].type.bytes;
  case Buffer::Kind::Temp:
    return interface.arenaBytes;
  case Buffer::Kind::Const:
    return program.constants.size;
  case Buffer::Kind::Rank:
    return sizeof(uint32_t);
  case Buffer::Kind::Tile:
    return interface.tileBytes;
  }
  return 0;
}

Buffer readBuffer(const JsonNode &node, const Interface &interface,
                  const Program &program) {
  Buffer buffer;
  std::string kind = node["kind"].text();
  if (kind == "arg") {
    buffer.kind = Buffer::Kind::Arg;
    buffer.index = node["index"].index(interface.args.size(), "args");
  } else if (kind == "result") {
    buffer.kind = Buffer::Kind::Result;
    buffer.index = node["index"].index(interface.results.size(), "results");
  } else if (kind == "temp" || kind == "const" || kind == "tile") {
    buffer.kind = kind == "temp"    ? Buffer::Kind::Temp
                  : kind == "const" ? Buffer::Kind::Const
                                    : Buffer::Kind::Tile;
    // A single element, such as one scale of many, needs only its own
    // alignment.
    TensorType type = node.tensor();
    int64_t alignment =
        type.elements == 1 ? std::max<int64_t>(type.bytes, 1) : bufferAlignment;
    if (node["offset"].integer() % alignment)
      node["offset"].fail("must be a multiple of " + std::to_string(alignment));
  } else if (kind == "rank") {
    buffer.kind = Buffer::Kind::Rank;
  } else {
    node["kind"].fail("'" + kind +
                      "' is none of arg, result, temp, const, rank, tile");
  }
  if (node.has("offset"))
    buffer.offset = node["offset"].atLeast(0);
  buffer.type = node.tensor();
  if (int64_t width = byteWidth(buffer.type.dtype); buffer.offset % width)
    node["offset"].fail("must be a multiple of " + std::to_string(width));
  int64_t bytes = buffer.type.bytes;
  if (buffer.kind == Buffer::Kind::Tile) {
    buffer.tiles = node["tiles"].atLeast(1);
    if (buffer.type.elements % buffer.tiles)
      node["tiles"].fail("do not divide the elements of " +
                         toString(buffer.type));
    bytes /= buffer.tiles;
  }
  int64_t extent = extentOf(buffer, interface, program);
  if (buffer.offset > extent || bytes > extent - buffer.offset)
    node.fail("takes " + std::to_string(bytes) + " bytes at " +
              std::to_string(buffer.offset) + ", past the end of its " +
              std::to_string(extent) + " bytes of " + kind + " memory");
  return buffer;
}

/// Reads the parts that the root and a function's own interface share.
void readInterface(const JsonNode &node, const Program &program,
                   Interface &interface) {
  interface.arenaBytes = node["arena_bytes"].atLeast(0);
  if (node.has("tile_bytes")) {
    // Each thread has as much: the sum must not overflow.
    constexpr int64_t most = int64_t(1) << 46;
    interface.tileBytes = node["tile_bytes"].atLeast(0);
    if (interface.tileBytes > most)
      node["tile_bytes"].fail("is more than 2^46");
  }
  readArgs(node["args"], interface);
  readResults(node["results"], interface);
  JsonNode buffers = node["buffers"];
  for (size_t i = 0; i < buffers.size(); ++i)
    interface.buffers.push_back(readBuffer(buffers.at(i), interface, program));
}

void readCounters(const JsonNode &list, Program &program) {
  for (size_t i = 0; i < list.size(); ++i) {
    JsonNode node = list.at(i);
    Counter counter;
    counter.cast = node.textOr("cast", "");
    counter.op = node.textOr("op", "");
    counter.loc = node.textOr("loc", "");
    counter.format = node.textOr("format", "");
    counter.elements = static_cast<uint64_t>(node["elements"].atLeast(0));
    program.counters.push_back(std::move(counter));
  }
}

bool isEvent(const Command &command) {
  return command.op == Command::Op::Record || command.op == Command::Op::Wait;
}

/// Marks commands of streams with collectives, which a CPU runs on the side
/// thread. It runs all others in the order of the program.
void markSideCommands(Function &function) {
  std::array<bool, maxStreams> isBeside = {};
  for (const Command &command : function.commands)
    if (command.op == Command::Op::Collective && command.stream != 0)
      isBeside[size_t(command.stream)] = true;
  for (Command &command : function.commands) {
    command.isBeside = isBeside[size_t(command.stream)];
    if (command.isBeside && command.op != Command::Op::Collective &&
        !isEvent(command))
      unsupported("command '" + command.name + "' is on stream " +
                  std::to_string(command.stream) +
                  " beside collectives, where a CPU runs nothing else");
  }
}

void readFunctions(const JsonNode &table, Program &program) {
  if (!table.json().is_object())
    table.fail("must be an object");
  size_t numCommands = 0;
  int32_t numHostCalls = 0; // functions in the order of their names
  for (const auto &[name, value] : table.json().items()) {
    JsonNode node = table[name.c_str()];
    Function function;
    function.name = name;
    bool isOwn = value.is_object();
    // Whoever runs the step allocates by the root's arguments and results.
    if (isOwn && name == "step")
      node.fail("must be a list of commands, for its interface is the root's");
    if (isOwn)
      readInterface(node, program, function.own.emplace());
    JsonNode list = isOwn ? node["commands"] : node;
    std::vector<bool> recorded(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      Command command = readCommand(list.at(i), program.interfaceOf(function),
                                    program, list.size());
      command.index = numCommands++;
      if (command.op == Command::Op::HostCall)
        command.hostCall = numHostCalls++;
      if (command.op == Command::Op::Record) {
        if (recorded[size_t(command.event)])
          list.at(i).fail("records event " + std::to_string(command.event) +
                          " a second time");
        recorded[size_t(command.event)] = true;
      }
      if (command.op == Command::Op::Wait && !recorded[size_t(command.event)])
        list.at(i).fail("waits for event " + std::to_string(command.event) +
                        ", which no command before it records");
      function.commands.push_back(std::move(command));
    }
    readTiles(list, program, function);
    if (!program.isGpu())
      markSideCommands(function);
    program.functions.push_back(std::move(function));
  }
}

/// Returns the number of a mesh's ranks: the product of its axes' sizes.
int32_t readRanks(const JsonNode &mesh) {
  constexpr int64_t maxRanks = 1 << 20;
  int64_t ranks = 1;
  for (size_t i = 0; i < mesh.size(); ++i) {
    JsonNode axis = mesh.at(i);
    if (axis.size() != 2)
      axis.fail("must be a name and a size");
    int64_t size = axis.at(1).atLeast(1);
    if (size > maxRanks / ranks)
      mesh.fail("has more than 2^20 ranks");
    ranks *= size;
  }
  return static_cast<int32_t>(ranks);
}

void readTarget(const JsonNode &root, Program &program) {
  program.target = root["target"].text();
  program.device = root["device"].text();
  if (program.device != "cpu" && program.device != "cuda")
    unsupported("artefact is for target '" + program.target + "' on device '" +
                program.device + "', this runtime has 'cpu' and 'cuda'");
  if (program.isGpu())
    program.capability = int32_t(root["capability"].atLeast(10));
  if (!root.has("peaks"))
    return;
  JsonNode peaks = root["peaks"];
  program.peaks = {peaks["device"].text(),   peaks["bandwidth"].number(),
                   peaks["f32"].number(),    peaks["tf32"].number(),
                   peaks["bits16"].number(), peaks["bits8"].number()};
}

nlohmann::json parseRoot(const std::string &json) {
  nlohmann::json root = nlohmann::json::parse(json, nullptr, false);
  if (root.is_discarded())
    badArtefact("bad manifest: it is not JSON");
  return root;
}
} // namespace

Program scalify::rt::parseManifest(const std::string &json, int64_t fileSize) {
  nlohmann::json tree = parseRoot(json);
  JsonNode root(tree, "");
  int64_t version = root["version"].integer();
  if (version != manifestVersion)
    unsupported("artefact has manifest version " + std::to_string(version) +
                ", this runtime reads version " +
                std::to_string(manifestVersion) +
                "; compile it again with the matching compiler");
  Program program;
  readTarget(root, program);
  program.mcpu = root.textOr("mcpu", "x86-64");
  program.recipe = root.textOr("recipe", "none");
  program.hash = root.textOr("hash", "");
  program.kernels = readSection(root["sections"]["kernels"], fileSize);
  program.constants = readSection(root["sections"]["constants"], fileSize);
  if (root["sections"].has("cubin"))
    program.cubin = readSection(root["sections"]["cubin"], fileSize);
  if (root.has("mesh"))
    program.ranks = readRanks(root["mesh"]);
  program.stageRanks = program.ranks;
  if (root.has("pipeline")) {
    JsonNode stages = root["pipeline"]["stages"];
    int64_t count = stages.atLeast(1);
    if (program.ranks % count != 0)
      stages.fail("do not divide the " + std::to_string(program.ranks) +
                  " ranks of the mesh");
    program.stageRanks = program.ranks / int32_t(count);
  }
  readInterface(root, program, program);
  readCounters(root["counters"], program);
  readFunctions(root["functions"], program);
  resolveLoops(root["functions"], program);
  return program;
}
