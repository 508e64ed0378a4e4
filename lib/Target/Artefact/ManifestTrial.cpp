//===- ManifestTrial.cpp - Trial runs of a step -------------------------===//
//
// A trial of a step (scalify_rt_try) moves the scales of casts by the values of
// a batch and leaves the caller's arguments alone. What it need not run is
// found backwards: a command is needed if it counts a cast, has an effect
// outside of the step's memory, or writes memory that a needed one reads.
//
//===----------------------------------------------------------------------===//

#include "ManifestTrial.h"

#include "scalify/Dialect/Plan/PlanStreams.h"
#include "scalify/Dialect/Plan/PlanTiles.h"
#include "scalify/Precision/CastScales.h"

#include <map>

using namespace mlir;
using namespace scalify;

namespace {
/// The bytes that needed commands read.
class Needed {
public:
  void add(plan::Access access) {
    access.isWrite = false;
    reads[access.memory].push_back(access);
  }

  bool contains(const plan::Access &write) const {
    auto found = reads.find(write.memory);
    return found != reads.end() &&
           llvm::any_of(found->second, [&](const plan::Access &read) {
             return write.conflictsWith(read);
           });
  }

private:
  std::map<std::pair<int, int64_t>, SmallVector<plan::Access>> reads;
};
} // namespace

/// Returns the memory that a command touches through an operand. The arena has
/// one temporary after another in the same place, so each is memory of its own.
static std::optional<plan::Access> accessOf(OpOperand &operand) {
  std::optional<plan::Access> access = plan::accessOf(operand);
  auto temp = operand.get().getDefiningOp<plan::TempOp>();
  if (!access || !temp)
    return access;
  constexpr int temporary = -1;
  auto whole = plan::getWhole(operand.get()).getAsOpaquePointer();
  int64_t start = temp.getWhole() ? temp.getStart().value_or(0) : 0;
  access->memory = {temporary, reinterpret_cast<intptr_t>(whole)};
  access->begin = start;
  access->end = start + plan::bufferBytes(operand.get());
  return access;
}

static bool counts(plan::ProgramOp program) {
  auto module = program->getParentOfType<ModuleOp>();
  for (Operation &op : program.getBody().front()) {
    auto casts = op.getAttrOfType<ArrayAttr>(plan::kCastsAttr);
    if (isa<plan::HostCallOp>(op) || (casts && !casts.empty()))
      return true;
    auto loop = dyn_cast<plan::LoopOp>(op);
    if (loop && counts(module.lookupSymbol<plan::ProgramOp>(loop.getCallee())))
      return true;
  }
  return false;
}

/// True if a trial needs the command whatever it writes. Messages are matched
/// with those of other stages, which decide for themselves.
static bool isNeeded(Operation *op) {
  if (isa<plan::HostCallOp, plan::MessageOp, plan::RecordOp, plan::WaitOp>(op))
    return true;
  if (auto loop = dyn_cast<plan::LoopOp>(op))
    return counts(op->getParentOfType<ModuleOp>().lookupSymbol<plan::ProgramOp>(
        loop.getCallee()));
  auto casts = op->getAttrOfType<ArrayAttr>(plan::kCastsAttr);
  return casts && !casts.empty();
}

/// True if a command reads no memory that it is said to write.
static bool writesOnly(Operation *op) {
  return isa<plan::KernelOp, plan::GemmOp, plan::AttentionOp, plan::CopyOp,
             plan::FillOp, plan::CollectiveOp>(op);
}

/// Adds the scales that the step moves: an argument, in whose memory its last
/// result is.
static void addMovedScales(plan::ProgramOp step, Needed &needed) {
  auto args = step->getAttrOfType<ArrayAttr>(plan::kArgsAttr);
  if (!args)
    return;
  for (auto result : step.getBody().getOps<plan::ResultOp>()) {
    std::optional<int64_t> alias = result.getAliasArg();
    if (!alias || *alias < 0 || static_cast<size_t>(*alias) >= args.size())
      continue;
    auto attrs = cast<DictionaryAttr>(args[*alias]);
    auto name = attrs.getAs<StringAttr>("scalify.name");
    if (!name || name.getValue() != kCarriedScalesName)
      continue;
    for (OpOperand &use : result.getMemory().getUses())
      if (std::optional<plan::Access> access = accessOf(use))
        needed.add(*access);
  }
}

/// Returns the argument in whose memory a buffer is, or -1.
static int64_t argumentOf(Value buffer) {
  if (auto argument = buffer.getDefiningOp<plan::ArgumentOp>())
    return argument.getIndex();
  auto result = buffer.getDefiningOp<plan::ResultOp>();
  return result ? result.getAliasArg().value_or(-1) : -1;
}

/// Returns the commands in order, those that run tile by tile together.
static SmallVector<SmallVector<Operation *>> groupsOf(plan::ProgramOp step) {
  SmallVector<SmallVector<Operation *>> groups;
  std::optional<int64_t> last;
  for (Operation &op : step.getBody().front()) {
    if (plan::isBuffer(&op))
      continue;
    std::optional<plan::Tiling> tiling = plan::tilingOf(&op);
    if (!tiling || last != tiling->group)
      groups.emplace_back();
    groups.back().push_back(&op);
    last = tiling ? std::optional(tiling->group) : std::nullopt;
  }
  return groups;
}

manifest::Trial manifest::findTrial(plan::ProgramOp step) {
  Trial trial;
  for (auto result : step.getBody().getOps<plan::ResultOp>())
    if (std::optional<int64_t> alias = result.getAliasArg())
      trial.spared.insert(*alias);
  Needed needed;
  addMovedScales(step, needed);
  SmallVector<SmallVector<Operation *>> groups = groupsOf(step);
  for (ArrayRef<Operation *> group : llvm::reverse(groups)) {
    SmallVector<plan::Access> reads;
    SmallVector<int64_t> written;
    bool isRead = false;
    for (Operation *op : group) {
      isRead |= isNeeded(op);
      for (OpOperand &operand : op->getOpOperands()) {
        std::optional<plan::Access> access = accessOf(operand);
        if (!access)
          continue;
        if (access->isWrite) {
          isRead |= needed.contains(*access);
          written.push_back(argumentOf(operand.get()));
        }
        if (!access->isWrite || !writesOnly(op))
          reads.push_back(*access);
      }
    }
    if (!isRead) {
      trial.updates.insert(group.begin(), group.end());
      continue;
    }
    for (const plan::Access &read : reads)
      needed.add(read);
    for (int64_t argument : written)
      trial.spared.erase(argument);
  }
  return trial;
}
