#include "loader/LoopReader.h"
#include "loader/CommandReader.h"

#include <algorithm>

using namespace scalify::rt;

namespace {
constexpr size_t sliceNumbers = 4; // argument, start, step, last

void readSlices(const JsonNode &list, Command &command) {
  constexpr int64_t most = int64_t(1) << 46; // far from the limit of int64_t
  if (list.size() % sliceNumbers)
    list.fail("must have four numbers a slice");
  auto bounded = [&](size_t i) {
    int64_t number = list.at(i).atLeast(-most);
    if (number > most)
      list.at(i).fail("is beyond 2^46");
    return number;
  };
  for (size_t i = 0; i < list.size(); i += sliceNumbers) {
    LoopSlice slice;
    slice.argument = list.at(i).index(command.buffers.size(), "arguments");
    slice.start = bounded(i + 1);
    slice.step = bounded(i + 2);
    slice.last = bounded(i + 3);
    if (slice.last < 0)
      list.at(i + 3).fail("must not be negative");
    command.slices.push_back(std::move(slice));
  }
}
} // namespace

void scalify::rt::readLoop(const JsonNode &node, const Interface &interface,
                           Command &command) {
  command.calleeName = node["function"].text();
  JsonNode carries = node["carries"], reads = node["reads"];
  for (size_t i = 0; i < carries.size(); ++i) {
    command.buffers.push_back(bufferIndex(carries.at(i), interface));
    requireWritable(carries.at(i), command.buffers.back(), interface);
  }
  command.numCarries = static_cast<int32_t>(carries.size());
  for (size_t i = 0; i < reads.size(); ++i)
    command.buffers.push_back(bufferIndex(reads.at(i), interface));
  if (node.has("arena")) {
    command.arena = static_cast<int32_t>(command.buffers.size());
    command.buffers.push_back(bufferIndex(node["arena"], interface));
    requireWritable(node["arena"], command.buffers.back(), interface);
  }
  if (node.has("slices"))
    readSlices(node["slices"], command);
  if (node.has("trips") == node.has("while"))
    node.fail("must have either 'trips' or a 'while'");
  if (node.has("trips")) {
    command.trips = node["trips"].atLeast(0);
    return;
  }
  command.condition = node["while"].index(carries.size(), "carries");
  const TensorType &type =
      interface.buffers[command.buffers[command.condition]].type;
  if (type.elements != 1 || type.dtype != DType::I1)
    node["while"].fail("is of type " + toString(type) + ", not one i1");
}

namespace {
/// Resolves the loops of each function after those of its callees.
class Resolver {
public:
  Resolver(const JsonNode &table, Program &program)
      : table(table), program(program), states(program.functions.size()),
        depths(program.functions.size()), callers(program.functions.size()) {}

  void visit(size_t index) {
    if (states[index] == State::Done)
      return;
    Function &function = program.functions[index];
    JsonNode node = table[function.name.c_str()];
    if (states[index] == State::Open)
      node.fail("runs itself in a loop");
    if (depth == maxDepth)
      failAsDeep(node);
    ++depth;
    states[index] = State::Open;
    JsonNode list = function.own ? node["commands"] : node;
    for (size_t i = 0; i < function.commands.size(); ++i) {
      visitCommand(list.at(i), function, function.commands[i]);
      if (int32_t callee = function.commands[i].callee; callee >= 0)
        depths[index] = std::max(depths[index], depths[size_t(callee)] + 1);
    }
    // Those of callees that had been visited count too: a run recurses.
    if (depths[index] == maxDepth)
      failAsDeep(node);
    addCallees(node, function, int32_t(index));
    states[index] = State::Done;
    --depth;
  }

private:
  enum class State : uint8_t { New, Open, Done };

  void visitCommand(const JsonNode &node, Function &function,
                    Command &command) {
    function.isCounting |= !command.counters.empty();
    function.isExchanging |= command.op == Command::Op::Collective;
    ++function.numIssued;
    if (command.op == Command::Op::HostCall && !function.firstHostCall)
      function.firstHostCall = &command;
    if (command.op != Command::Op::Loop)
      return;
    const Function *found = program.find(command.calleeName);
    if (!found || !found->own)
      node["function"].fail("is '" + command.calleeName +
                            "', which is no function with arguments of its "
                            "own");
    command.callee = static_cast<int32_t>(found - program.functions.data());
    visit(size_t(command.callee));
    check(node, program.interfaceOf(function), command, *found);
    function.isCounting |= found->isCounting;
    function.isExchanging |= found->isExchanging;
    function.hasOpenLoop |= found->hasOpenLoop || command.condition >= 0;
    if (command.condition < 0)
      function.numIssued += double(command.trips) * found->numIssued;
    if (!function.firstHostCall)
      function.firstHostCall = found->firstHostCall;
  }

  void check(const JsonNode &node, const Interface &interface, Command &command,
             const Function &callee) const;
  void addCallees(const JsonNode &node, Function &function, int32_t number);
  [[noreturn]] static void failAsDeep(const JsonNode &node) {
    node.fail("is in loops " + std::to_string(maxDepth) + " deep");
  }

  // Far above what programs nest, and safe on a small stack.
  static constexpr int maxDepth = 64;
  // The callees of all functions together: 64 MiB of numbers.
  static constexpr size_t maxCallees = size_t(1) << 24;

  const JsonNode &table;
  Program &program;
  std::vector<State> states;
  /// The loops within one another in each function.
  std::vector<int> depths;
  /// The last function to which each was added as a callee, plus one.
  std::vector<int32_t> callers;
  size_t numCallees = 0;
  int depth = 0;
};

/// Finds the callee's buffers in the memory of slices. Returns the last place
/// of each argument's slice, 0 for whole buffers.
std::vector<int64_t> resolveSlices(const JsonNode &node, Command &command,
                                   const Interface &callee, size_t count) {
  std::vector<int64_t> places(count);
  std::vector<bool> isSliced(count);
  for (LoopSlice &slice : command.slices) {
    if (size_t(slice.argument) >= count)
      node["slices"].fail("are of arguments that the loop has not");
    if (isSliced[size_t(slice.argument)])
      node["slices"].fail("name argument " + std::to_string(slice.argument) +
                          " again");
    isSliced[size_t(slice.argument)] = true;
    const TensorType &type = callee.args[size_t(slice.argument)].type;
    int64_t unit = type.elements == 1 ? byteWidth(type.dtype) : bufferAlignment;
    if (slice.start % unit || slice.step % unit || slice.last % unit)
      node["slices"].fail("must be at multiples of " + std::to_string(unit) +
                          " bytes");
    places[size_t(slice.argument)] = slice.last;
    for (size_t i = 0; i < callee.buffers.size(); ++i) {
      const Buffer &buffer = callee.buffers[i];
      bool isPassed = buffer.kind == Buffer::Kind::Arg ||
                      buffer.kind == Buffer::Kind::Result;
      if (isPassed && buffer.index == slice.argument)
        slice.buffers.push_back(static_cast<int32_t>(i));
    }
  }
  return places;
}

void Resolver::check(const JsonNode &node, const Interface &interface,
                     Command &command, const Function &callee) const {
  const Interface &own = *callee.own;
  size_t count = command.buffers.size() - (command.arena >= 0 ? 1 : 0);
  auto typeOf = [&](size_t i) -> const TensorType & {
    return interface.buffers[command.buffers[i]].type;
  };
  if (count != own.args.size() ||
      size_t(command.numCarries) != own.results.size())
    node.fail("has " + std::to_string(command.numCarries) + " carries and " +
              std::to_string(count - size_t(command.numCarries)) +
              " reads, but '" + callee.name + "' takes " +
              std::to_string(own.args.size()) + " arguments and gives " +
              std::to_string(own.results.size()) + " results");
  std::vector<int64_t> places = resolveSlices(node, command, own, count);
  for (size_t i = 0; i < count; ++i)
    if (typeOf(i).dtype != own.args[i].type.dtype ||
        typeOf(i).bytes - places[i] != own.args[i].type.bytes)
      node.fail("passes " + toString(typeOf(i)) + " as argument " +
                std::to_string(i) + " of '" + callee.name + "', which is " +
                toString(own.args[i].type));
  for (size_t i = 0; i < own.results.size(); ++i)
    if (own.results[i].aliasArg != int64_t(i))
      node.fail("needs result " + std::to_string(i) + " of '" + callee.name +
                "' in the memory of its argument " + std::to_string(i));
  int64_t room = command.arena >= 0 ? typeOf(size_t(command.arena)).bytes : 0;
  if (own.arenaBytes > room)
    node.fail("has " + std::to_string(room) + " bytes for the arena of '" +
              callee.name + "', which takes " + std::to_string(own.arenaBytes));
  const bool isBeside = callee.isExchanging || callee.streams() > 1;
  if (isBeside && !program.isGpu())
    node["function"].fail("exchanges data between ranks or streams, which no "
                          "loop of a CPU does");
  // Ranks that leave a loop after different iterations wait for ever.
  if (callee.isExchanging && command.condition >= 0)
    node["function"].fail("exchanges data between ranks, and how often it runs "
                          "depends on data, which may differ between them");
  if (command.stream != 0)
    node["stream"].fail("must be 0: the commands of a loop have streams of "
                        "their own");
}

void Resolver::addCallees(const JsonNode &node, Function &function,
                          int32_t number) {
  auto add = [&](int32_t one) {
    if (callers[size_t(one)] == number + 1)
      return false;
    if (++numCallees > maxCallees)
      node.fail("has loops, and the functions that the loops of all functions "
                "run are more than 2^24 together");
    callers[size_t(one)] = number + 1;
    function.callees.push_back(one);
    return true;
  };
  for (const Command &command : function.commands)
    if (command.callee >= 0) {
      const Function &callee = program.functions[size_t(command.callee)];
      // Where a callee is known, so are those that it runs.
      if (add(command.callee))
        std::for_each(callee.callees.begin(), callee.callees.end(), add);
    }
}
} // namespace

void scalify::rt::resolveLoops(const JsonNode &table, Program &program) {
  Resolver resolver(table, program);
  for (size_t i = 0; i < program.functions.size(); ++i)
    resolver.visit(i);
}
