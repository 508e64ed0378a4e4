#include "loader/LoopReader.h"
#include "loader/CommandReader.h"

using namespace scalify::rt;

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
      : table(table), program(program), states(program.functions.size()) {}

  void visit(size_t index) {
    if (states[index] == State::Done)
      return;
    Function &function = program.functions[index];
    JsonNode node = table[function.name.c_str()];
    if (states[index] == State::Open)
      node.fail("runs itself in a loop");
    states[index] = State::Open;
    JsonNode list = function.own ? node["commands"] : node;
    for (size_t i = 0; i < function.commands.size(); ++i)
      visitCommand(list.at(i), function, function.commands[i]);
    states[index] = State::Done;
  }

private:
  enum class State : uint8_t { New, Open, Done };

  void visitCommand(const JsonNode &node, Function &function,
                    Command &command) {
    function.isCounting |= !command.counters.empty();
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
    if (!function.firstHostCall)
      function.firstHostCall = found->firstHostCall;
  }

  static void check(const JsonNode &node, const Interface &interface,
                    const Command &command, const Function &callee);

  const JsonNode &table;
  Program &program;
  std::vector<State> states;
};

void Resolver::check(const JsonNode &node, const Interface &interface,
                     const Command &command, const Function &callee) {
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
  for (size_t i = 0; i < count; ++i)
    if (typeOf(i).dtype != own.args[i].type.dtype ||
        typeOf(i).bytes != own.args[i].type.bytes)
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
  if (callee.exchanges() || callee.streams() > 1)
    node["function"].fail("exchanges data between ranks or streams, which no "
                          "loop does");
}
} // namespace

void scalify::rt::resolveLoops(const JsonNode &table, Program &program) {
  Resolver resolver(table, program);
  for (size_t i = 0; i < program.functions.size(); ++i)
    resolver.visit(i);
}
