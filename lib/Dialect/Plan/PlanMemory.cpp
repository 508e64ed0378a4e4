//===- PlanMemory.cpp - Memory of a step ----------------------------------===//
//
// Counts arguments by their roles, and in the arena the values that cross two
// borders of phases: from the forward to the backward (activations, and casts
// of weights), and from the backward to the update (gradients). The rest of the
// arena is work space between nearby commands.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Plan/PlanMemory.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace scalify;

int64_t plan::PlanMemory::state() const {
  auto bytes = [&](const char *role) {
    auto found = arguments.find(role);
    return found == arguments.end() ? 0 : found->second;
  };
  return bytes("param") + bytes("moment");
}

int64_t plan::PlanMemory::peak() const {
  int64_t sum = results + constants + arena;
  for (const auto &[role, bytes] : arguments)
    sum += bytes;
  return sum;
}

/// Returns the temporaries that kernels compute from parameters alone: their
/// casts, transposed copies, and values computed from these. Reads of single
/// elements, such as scales, are allowed.
static DenseSet<Value> findCastWeights(plan::ProgramOp program) {
  auto attrs = program->getAttrOfType<ArrayAttr>(plan::kArgsAttr);
  auto isParameter = [&](Value value) {
    auto argument = value.getDefiningOp<plan::ArgumentOp>();
    if (!argument || !attrs || argument.getIndex() >= attrs.size())
      return false;
    auto role = cast<DictionaryAttr>(attrs[argument.getIndex()])
                    .getAs<StringAttr>(plan::kRoleKey);
    return role && role.getValue() == "param";
  };
  DenseSet<Value> found;
  for (auto kernel : program.getBody().getOps<plan::KernelOp>()) {
    bool any = false, all = true;
    for (Value read : llvm::map_range(kernel.getReads(), plan::getWhole)) {
      bool isWeight = isParameter(read) || found.contains(read);
      any |= isWeight;
      all &= isWeight || read.getDefiningOp<plan::ConstantOp>() ||
             cast<MemRefType>(read.getType()).getNumElements() == 1;
    }
    if (any && all)
      for (Value write : llvm::map_range(kernel.getWrites(), plan::getWhole))
        if (write.getDefiningOp<plan::TempOp>())
          found.insert(write);
  }
  return found;
}

/// Returns the peak bytes of counted temporaries that commands of phase `from`
/// write, and whose last reader is in no phase of `within`.
static int64_t measureCrossing(plan::ProgramOp program,
                               const DenseMap<Value, plan::LiveRange> &ranges,
                               StringRef from, ArrayRef<StringRef> within,
                               function_ref<bool(Value)> isCounted) {
  SmallVector<StringRef> phases;
  for (Operation &op : program.getBody().front()) {
    auto phase = op.getAttrOfType<StringAttr>(plan::kCommandPhaseAttr);
    phases.push_back(phase ? phase.getValue() : "");
  }
  SmallVector<int64_t> change(phases.size() + 1, 0);
  for (auto [value, range] : ranges) {
    if (range.first < 0 || phases[range.first] != from || !isCounted(value))
      continue;
    if (llvm::is_contained(within, phases[range.last]))
      continue;
    change[range.first] += plan::bufferBytes(value);
    change[range.last + 1] -= plan::bufferBytes(value);
  }
  int64_t live = 0, most = 0;
  for (int64_t bytes : change)
    most = std::max(most, live += bytes);
  return most;
}

static void measureArguments(plan::ProgramOp program,
                             plan::PlanMemory &memory) {
  auto attrs = program->getAttrOfType<ArrayAttr>(plan::kArgsAttr);
  for (auto argument : program.getBody().getOps<plan::ArgumentOp>()) {
    // A part of another argument has an offset.
    if (argument->hasAttr(plan::kOffsetAttr))
      continue;
    std::string role = "input";
    if (attrs && argument.getIndex() < attrs.size())
      if (auto given = cast<DictionaryAttr>(attrs[argument.getIndex()])
                           .getAs<StringAttr>(plan::kRoleKey))
        role = given.str();
    if (role == "param")
      memory.parameters +=
          cast<MemRefType>(argument.getMemory().getType()).getNumElements();
    memory.arguments[role] += plan::bufferBytes(argument.getMemory());
  }
}

plan::PlanMemory plan::measureMemory(plan::ProgramOp program) {
  PlanMemory memory;
  memory.arena = program.getArenaBytes().value_or(0);
  memory.tiles = program.getTileBytes().value_or(0);
  measureArguments(program, memory);
  for (auto result : program.getBody().getOps<plan::ResultOp>())
    if (!result.getAliasArg() && !result->hasAttr(plan::kOffsetAttr))
      memory.results += bufferBytes(result.getMemory());
  for (auto constant : program.getBody().getOps<plan::ConstantOp>())
    memory.constants += bufferBytes(constant.getMemory());
  DenseMap<Value, LiveRange> ranges = computeLiveRanges(program);
  DenseSet<Value> weights = findCastWeights(program);
  auto isWeight = [&](Value value) { return weights.contains(value); };
  memory.kept = measureCrossing(program, ranges, "forward", {"forward", ""},
                                [&](Value value) { return !isWeight(value); });
  memory.weights =
      measureCrossing(program, ranges, "forward", {"forward", ""}, isWeight);
  memory.gradients =
      measureCrossing(program, ranges, "backward", {"forward", "backward", ""},
                      [](Value) { return true; });
  return memory;
}

llvm::json::Object plan::toJSON(const PlanMemory &memory) {
  llvm::json::Object arguments;
  for (const auto &[role, bytes] : memory.arguments)
    arguments[role] = bytes;
  return llvm::json::Object{{"parameters", memory.parameters},
                            {"arguments", std::move(arguments)},
                            {"state", memory.state()},
                            {"results", memory.results},
                            {"constants", memory.constants},
                            {"arena", memory.arena},
                            {"tiles", memory.tiles},
                            {"kept", memory.kept},
                            {"weights", memory.weights},
                            {"gradients", memory.gradients},
                            {"peak", memory.peak()}};
}

std::string plan::toText(const PlanMemory &memory) {
  std::string text;
  llvm::raw_string_ostream os(text);
  double parameters =
      static_cast<double>(std::max<int64_t>(memory.parameters, 1));
  auto line = [&](StringRef name, int64_t bytes, StringRef what) {
    os << llvm::formatv("{0,-22}{1,15:N}", name, bytes);
    if (memory.parameters)
      os << llvm::formatv(" {0,10:F2}",
                          static_cast<double>(bytes) / parameters);
    os << "  " << what << "\n";
  };
  os << llvm::formatv("{0:N} parameters\n{1,-22}{2,15} {3,10}\n",
                      memory.parameters, "", "bytes",
                      memory.parameters ? "each" : "");
  for (const auto &[role, bytes] : memory.arguments)
    line("argument: " + role, bytes, "");
  line("results", memory.results, "without those in the memory of arguments");
  line("constants", memory.constants, "");
  line("arena", memory.arena, "");
  line("  activations", memory.kept, "from the forward to the backward");
  line("  casts of weights", memory.weights,
       "from the forward to the backward");
  line("  gradients", memory.gradients, "from the backward to the update");
  line("peak", memory.peak(), "");
  if (memory.tiles)
    line("tiles", memory.tiles, "of each thread, not in the peak");
  return text;
}
