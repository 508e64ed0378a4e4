//===- RecomputeTiles.cpp - Tiles computed again in a later group ---------===//

#include "OpCosts.h"
#include "TileGroups.h"

#include "scalify/Dialect/Plan/PlanStreams.h"
#include "scalify/Dialect/Plan/PlanTiles.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Fusion/Passes.h"

#include "mlir/IR/IRMapping.h"

namespace scalify {
#define GEN_PASS_DEF_RECOMPUTETILES
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// A core moves a byte to memory and back at some 5 GB/s beside others, in the
/// time of 2 vector instructions, of 16 elements each.
static constexpr double kInstructionsPerByte = 32;

namespace {
struct Group {
  int64_t tiles = 0;
  SmallVector<Operation *> commands;

  bool contains(Operation *op) const {
    return llvm::is_contained(commands, op);
  }
};

/// The commands of an earlier group that a later one repeats, and their
/// temporaries.
class Repeat {
public:
  Repeat(Group &earlier, Group &later) : earlier(earlier), later(later) {}

  bool choose();
  int64_t countSavedBytes() const;
  int64_t countCommands() const { return int64_t(repeated.size()); }
  void apply();

private:
  bool mayBeTiled(OpOperand &use) const;
  bool tryRepeat(Operation *command);
  bool isUnchanged(OpOperand &read) const;
  Operation *findWriter(Value buffer) const;

  Group &earlier, &later;
  llvm::SetVector<Value> saved;          // temporaries of both groups alone
  llvm::SetVector<Operation *> repeated; // of the earlier group
};

class RecomputeTilesPass
    : public scalify::impl::RecomputeTilesBase<RecomputeTilesPass> {
public:
  using RecomputeTilesBase::RecomputeTilesBase;
  void runOnOperation() override;
};
} // namespace

static bool isWrite(OpOperand &operand) {
  std::optional<plan::Access> access = plan::accessOf(operand);
  return access && access->isWrite;
}

/// Returns the instructions of a command, without those on single elements.
static double countInstructions(Operation *command) {
  if (auto gemm = dyn_cast<plan::GemmOp>(command)) {
    double products =
        double(gemm.getM()) * double(gemm.getN()) * double(gemm.getK());
    for (int64_t extent : gemm.getBatch())
      products *= double(extent);
    // The unit for BF16 sums two products at once.
    bool isNarrow =
        cast<MemRefType>(gemm.getA().getType()).getElementType().isBF16();
    return isNarrow ? products / 2 : products;
  }
  double cost = 0;
  for (Operation &op :
       cast<plan::KernelOp>(command).getBody().front().without_terminator())
    cost += scalify::costOf(&op) * double(countOf(op.getResult(0)));
  return cost;
}

Operation *Repeat::findWriter(Value buffer) const {
  Operation *writer = nullptr;
  for (OpOperand &use : buffer.getUses())
    if (isWrite(use)) {
      if (writer)
        return nullptr;
      writer = use.getOwner();
    }
  return writer && earlier.contains(writer) ? writer : nullptr;
}

/// True if no command from the earlier group to the end of the later one writes
/// what `read` reads.
bool Repeat::isUnchanged(OpOperand &read) const {
  std::optional<plan::Access> access = plan::accessOf(read);
  if (!access)
    return true;
  for (Operation *op = earlier.commands.front();; op = op->getNextNode()) {
    if (llvm::any_of(plan::accessesOf(op), [&](const plan::Access &other) {
          return other.isWrite && other.conflictsWith(*access);
        }))
      return false;
    if (op == later.commands.back())
      return true;
  }
}

/// True if a command of one of the groups touches the buffer in its own tile: a
/// copy would be written in the same group.
bool Repeat::mayBeTiled(OpOperand &use) const {
  Operation *user = use.getOwner();
  if (!earlier.contains(user) && !later.contains(user))
    return false;
  auto aligned = plan::alignTiles(user, later.tiles);
  return aligned && (*aligned)[use.getOperandNumber()];
}

/// Adds a command of the earlier group with all of the group that it depends
/// on. Returns false if one cannot be repeated.
bool Repeat::tryRepeat(Operation *command) {
  if (repeated.contains(command))
    return true;
  auto kernel = dyn_cast<plan::KernelOp>(command);
  if (kernel && kernel.getInplace())
    return false;
  for (OpOperand &operand : command->getOpOperands()) {
    auto temp = operand.get().getDefiningOp<plan::TempOp>();
    if (isWrite(operand)) {
      if (!temp || temp.getWhole())
        return false;
      continue;
    }
    Operation *writer = findWriter(operand.get());
    if (writer ? !tryRepeat(writer) : !isUnchanged(operand))
      return false;
  }
  repeated.insert(command);
  return true;
}

bool Repeat::choose() {
  for (Operation *command : later.commands)
    for (Value operand : command->getOperands()) {
      auto temp = operand.getDefiningOp<plan::TempOp>();
      if (!temp || temp.getWhole() || temp.getTiles() || !findWriter(operand))
        continue;
      if (llvm::all_of(operand.getUses(),
                       [&](OpOperand &use) { return mayBeTiled(use); }))
        saved.insert(operand);
    }
  for (Value value : saved)
    if (!tryRepeat(findWriter(value)))
      return false;
  double cost = 0;
  for (Operation *command : repeated)
    cost += countInstructions(command);
  return !saved.empty() &&
         cost <= kInstructionsPerByte * double(countSavedBytes());
}

int64_t Repeat::countSavedBytes() const {
  int64_t bytes = 0;
  for (Value value : saved)
    bytes += plan::bufferBytes(value);
  return bytes;
}

void Repeat::apply() {
  Operation *first = later.commands.front();
  OpBuilder b(first);
  IRMapping map;
  SmallVector<Operation *> copies;
  for (Operation *command : earlier.commands) {
    if (!repeated.contains(command))
      continue;
    for (OpOperand &operand : command->getOpOperands())
      if (isWrite(operand) && !map.contains(operand.get())) {
        Operation *temp = operand.get().getDefiningOp();
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointAfter(temp);
        Operation *copy = b.clone(*temp);
        copy->removeAttr("tiles");
        map.map(operand.get(), copy->getResult(0));
      }
    Operation *copy = b.clone(*command, map);
    copy->removeAttr(plan::kCastsAttr);
    copy->walk([&](QuantizeOp op) {
      op->setAttr(plan::kUncountedCastAttr, b.getUnitAttr());
    });
    if (Attribute phase = first->getAttr(plan::kCommandPhaseAttr))
      copy->setAttr(plan::kCommandPhaseAttr, phase);
    plan::setTiling(copy, *plan::tilingOf(first));
    copies.push_back(copy);
  }
  for (Value value : saved)
    value.replaceUsesWithIf(map.lookup(value), [&](OpOperand &use) {
      return later.contains(use.getOwner());
    });
  later.commands.insert(later.commands.begin(), copies.begin(), copies.end());
  shrinkTemporaries(earlier.commands, earlier.tiles);
  shrinkTemporaries(later.commands, later.tiles);
}

static SmallVector<Group> findGroups(plan::ProgramOp program) {
  llvm::MapVector<int64_t, Group> groups;
  for (Operation &op : program.getBody().front())
    if (std::optional<plan::Tiling> tiling = plan::tilingOf(&op)) {
      Group &group = groups[tiling->group];
      group.tiles = tiling->tiles;
      group.commands.push_back(&op);
    }
  SmallVector<Group> found;
  for (auto &entry : groups)
    found.push_back(std::move(entry.second));
  return found;
}

void RecomputeTilesPass::runOnOperation() {
  for (auto program : getOperation().getOps<plan::ProgramOp>()) {
    SmallVector<Group> groups = findGroups(program);
    for (size_t i = 0; i < groups.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        if (groups[i].tiles != groups[j].tiles)
          continue;
        Repeat repeat(groups[j], groups[i]);
        if (!repeat.choose())
          continue;
        numBytes += repeat.countSavedBytes();
        numCommands += repeat.countCommands();
        repeat.apply();
      }
  }
}
