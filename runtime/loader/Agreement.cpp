#include "loader/Agreement.h"
#include "support/Error.h"

using namespace scalify::rt;

namespace {
/// The bytes to compare. Strings follow their lengths, so that different lists
/// have different bytes.
class Text {
public:
  void add(int64_t number) {
    bytes.append(reinterpret_cast<const char *>(&number), sizeof number);
  }
  void add(const std::string &text) {
    add(int64_t(text.size()));
    bytes += text;
  }
  void add(const TensorType &type) {
    add(std::string(name(type.dtype)));
    add(int64_t(type.shape.size()));
    for (int64_t extent : type.shape)
      add(extent);
  }
  uint64_t hash() const { return fnv1a(bytes.data(), bytes.size()); }

private:
  std::string bytes;
};

void addCollective(Text &text, const Command &command) {
  const Collective &what = command.collective;
  const bool isMessage = what.kind == Collective::Kind::Message;
  text.add(std::string(name(what.kind)));
  text.add(std::string(name(what.join)));
  text.add(std::string(name(what.type)));
  text.add(what.elements);
  // A message's peer follows from the stage.
  text.add(isMessage ? what.name : std::string());
  text.add(int64_t(command.groups.size()));
  for (const std::vector<int32_t> &group : command.groups)
    for (int32_t member : group)
      text.add(member);
}

void addCommand(Text &text, const Command &command) {
  text.add(int64_t(command.op));
  text.add(command.name);
  text.add(command.stream);
  text.add(command.bytes);
  for (int32_t buffer : command.buffers)
    text.add(buffer);
  text.add(command.gemm.m);
  text.add(command.gemm.n);
  text.add(command.gemm.k);
  text.add(command.calleeName);
  for (const LoopSlice &slice : command.slices)
    for (int64_t number : {slice.start, slice.step, slice.last})
      text.add(number);
}

void addInterface(Text &text, const Interface &interface) {
  for (const Argument &arg : interface.args) {
    text.add(arg.name);
    text.add(arg.type);
  }
  for (const Result &result : interface.results)
    text.add(result.type);
}
} // namespace

static uint64_t hashOf(const Image &image, const Section &section,
                       uint64_t before = fnvBasis) {
  return fnv1a(image.data() + section.offset, size_t(section.size), before);
}

static Text getMachineText(const Program &program) {
  Text text;
  text.add(program.target);
  text.add(program.mcpu);
  return text;
}

Signature scalify::rt::computeSignature(const Program &program,
                                        const Image &image) {
  Text exchanges, all;
  addInterface(all, program);
  for (const Function &function : program.functions) {
    exchanges.add(function.name);
    all.add(function.name);
    addInterface(all, program.interfaceOf(function));
    for (const Command &command : function.commands) {
      if (command.op == Command::Op::Collective)
        addCollective(exchanges, command);
      if (command.op == Command::Op::Loop)
        exchanges.add(command.calleeName + " " + std::to_string(command.trips));
      addCommand(all, command);
    }
  }
  Signature found;
  found.exchanges = exchanges.hash();
  found.all = hashOf(image, program.constants, all.hash());
  found.machine = getMachineText(program).hash();
  found.kernels = hashOf(image, program.kernels);
  if (program.cubin)
    found.kernels = hashOf(image, *program.cubin, found.kernels);
  return found;
}

/// Returns how the steps differ, or null if they are the same.
static const char *describeDifference(const Signature &one,
                                      const Signature &other) {
  if (one.exchanges != other.exchanges)
    return "exchanges something else";
  const bool isOneMachine = one.machine == other.machine;
  if (one.all != other.all || (isOneMachine && one.kernels != other.kernels))
    return "computes something else";
  return nullptr;
}

uint64_t scalify::rt::requireOneStep(const Program &program, const Image &image,
                                     Communicator &comm) {
  if (!comm.hasOthers())
    return 0;
  Signature own = computeSignature(program, image);
  const Collective gather =
      makeGatherOfAll(comm.size(), "steps that ranks have loaded", sizeof own);
  std::vector<Signature> ranks(static_cast<size_t>(comm.size()));
  comm.run(gather, &own, ranks.data());
  // The communicator counts the bytes of steps only: subtract these.
  comm.addBytesSent(uint64_t(0) - uint64_t(bytesSent(gather, comm.rank())));
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const size_t first = rank - rank % size_t(program.stageRanks);
    if (const char *what = describeDifference(ranks[rank], ranks[first]))
      badArgument("rank " + std::to_string(rank) +
                  " has loaded another step than rank " +
                  std::to_string(first) + ": it " + what +
                  "; give all ranks the same program, constants, shardings, "
                  "recipe and options");
  }
  // Kernels too: programs may differ in a number alone that is in their code.
  return fnv1a(ranks.data(), ranks.size() * sizeof(Signature));
}
