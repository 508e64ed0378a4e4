//===- TileCommands.cpp - Chains of batched products, tile by tile --------===//
//
// The result of a batched product is often larger than the caches, and read
// once: scores of an attention, hidden values of experts. A group starts at
// such a product. The commands that read its results join if they run in the
// same tiles. A temporary that no command outside reads becomes memory of a
// thread that holds one tile.
//
//===----------------------------------------------------------------------===//

#include "TileGroups.h"

#include "scalify/Dialect/Plan/PlanTiles.h"
#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_TILECOMMANDS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// Tiles balance the threads of a machine; fewer would leave cores idle.
static constexpr int64_t kMinTiles = 8;
/// A group that a core's cache holds anyway gains nothing: 1 MiB is a usual L2.
static constexpr int64_t kMinBytes = 1 << 20;
/// Commands that a group may leave behind while it looks for its next one.
static constexpr size_t kMaxSkipped = 16;

namespace {
class Grouper {
public:
  Grouper(Operation *first, int64_t tiles) : tiles(tiles) { tryJoin(first); }

  /// Adds all later commands that it can.
  void grow();
  /// The bytes that commands of the group pass to each other.
  int64_t countPassedBytes() const;
  /// Makes the group's commands neighbours, and marks them.
  void mark(int64_t number);
  ArrayRef<Operation *> getCommands() const { return commands; }

private:
  bool tryJoin(Operation *command);
  bool readsResult(Operation *command) const;
  bool hoistFor(Operation *command);

  int64_t tiles;
  SmallVector<Operation *> commands, skipped, hoisted;
  SmallVector<plan::TiledAccess> uses; // of the commands
};

class TileCommandsPass
    : public scalify::impl::TileCommandsBase<TileCommandsPass> {
public:
  using TileCommandsBase::TileCommandsBase;
  void runOnOperation() override;

private:
  void visit(plan::ProgramOp program);
  int64_t numbers = 0;
};
} // namespace

static bool conflict(Operation *a, Operation *b) {
  SmallVector<plan::Access> others = plan::accessesOf(b);
  return llvm::any_of(plan::accessesOf(a), [&](const plan::Access &access) {
    return llvm::any_of(others, [&](const plan::Access &other) {
      return access.conflictsWith(other);
    });
  });
}

/// Adds the command if it runs in the group's tiles.
bool Grouper::tryJoin(Operation *command) {
  auto accesses = plan::tiledAccessesOf(command, tiles);
  if (!accesses ||
      llvm::any_of(*accesses, [&](const plan::TiledAccess &access) {
        return llvm::any_of(uses, [&](const plan::TiledAccess &other) {
          return access.conflictsWith(other);
        });
      }))
    return false;
  llvm::append_range(uses, *accesses);
  commands.push_back(command);
  return true;
}

bool Grouper::readsResult(Operation *command) const {
  return llvm::any_of(commands, [&](Operation *member) {
    return llvm::any_of(plan::accessesOf(member), [&](const auto &written) {
      return written.isWrite &&
             llvm::any_of(plan::accessesOf(command), [&](const auto &read) {
               return !read.isWrite && read.conflictsWith(written);
             });
    });
  });
}

/// Makes room for `command` after the group: moves the skipped commands that
/// it needs in front of the group. Returns false if that is not possible.
bool Grouper::hoistFor(Operation *command) {
  SmallVector<Operation *> moved, kept;
  for (Operation *op : llvm::reverse(skipped)) {
    bool isNeeded =
        conflict(op, command) || llvm::any_of(moved, [&](Operation *later) {
          return conflict(op, later);
        });
    (isNeeded ? moved : kept).push_back(op);
  }
  // In their order, past the group and the commands that stay between.
  std::reverse(moved.begin(), moved.end());
  std::reverse(kept.begin(), kept.end());
  for (Operation *op : moved) {
    auto isApart = [&](Operation *other) {
      return !other->isBeforeInBlock(op) || !conflict(op, other);
    };
    if (!llvm::all_of(commands, isApart) || !llvm::all_of(kept, isApart))
      return false;
  }
  llvm::append_range(hoisted, moved);
  skipped = std::move(kept);
  return true;
}

void Grouper::grow() {
  for (Operation *op = commands.front()->getNextNode();
       op && skipped.size() < kMaxSkipped; op = op->getNextNode()) {
    if (plan::isBuffer(op))
      continue;
    if (!isa<plan::KernelOp, plan::GemmOp>(op) || plan::tilingOf(op))
      return;
    auto gemm = dyn_cast<plan::GemmOp>(op);
    bool isBeside = gemm && plan::countTiledDims(gemm, tiles) > 0;
    // Copies: a command that cannot join leaves the group as it is.
    Grouper with = *this;
    if ((isBeside || readsResult(op)) && with.hoistFor(op) && with.tryJoin(op))
      *this = std::move(with);
    else
      skipped.push_back(op);
  }
}

int64_t Grouper::countPassedBytes() const {
  llvm::DenseSet<Value> written;
  int64_t bytes = 0;
  for (Operation *command : commands)
    for (OpOperand &operand : command->getOpOperands())
      if (auto access = plan::accessOf(operand)) {
        if (access->isWrite)
          written.insert(operand.get());
        else if (written.contains(operand.get()))
          bytes += plan::bufferBytes(operand.get());
      }
  return bytes;
}

/// Moves the buffers of a command that are after `place` in front of it.
static void moveBuffers(Operation *command, Operation *place) {
  for (Value operand : command->getOperands()) {
    Operation *buffer = operand.getDefiningOp();
    if (!buffer || !place->isBeforeInBlock(buffer))
      continue;
    moveBuffers(buffer, place);
    buffer->moveBefore(place);
  }
}

void Grouper::mark(int64_t number) {
  Operation *first = commands.front();
  llvm::sort(hoisted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : hoisted) {
    moveBuffers(op, first);
    op->moveBefore(first);
  }
  for (size_t i = 0; i < commands.size(); ++i) {
    moveBuffers(commands[i], first);
    if (i > 0)
      commands[i]->moveAfter(commands[i - 1]);
    plan::setTiling(commands[i], {tiles, number});
  }
}

void scalify::shrinkTemporaries(ArrayRef<Operation *> commands, int64_t tiles) {
  llvm::DenseSet<Operation *> members(commands.begin(), commands.end());
  llvm::SetVector<plan::TempOp> temps;
  for (Operation *command : commands)
    for (Value operand : command->getOperands())
      if (auto temp = operand.getDefiningOp<plan::TempOp>())
        temps.insert(temp);
  for (plan::TempOp temp : temps) {
    bool isOwn = !temp.getWhole() &&
                 llvm::all_of(temp.getMemory().getUses(), [&](OpOperand &use) {
                   return members.contains(use.getOwner()) &&
                          (*plan::alignTiles(use.getOwner(),
                                             tiles))[use.getOperandNumber()];
                 });
    if (isOwn)
      temp.setTiles(tiles);
  }
}

void TileCommandsPass::visit(plan::ProgramOp program) {
  Block &block = program.getBody().front();
  SmallVector<plan::GemmOp> gemms(block.getOps<plan::GemmOp>());
  for (plan::GemmOp gemm : gemms) {
    int64_t tiles = 1;
    for (int64_t extent : gemm.getBatch())
      tiles *= extent;
    if (tiles < kMinTiles || plan::tilingOf(gemm) || plan::streamOf(gemm) ||
        plan::bufferBytes(gemm.getC()) < kMinBytes)
      continue;
    Grouper group(gemm, tiles);
    if (group.getCommands().empty())
      continue;
    group.grow();
    if (group.countPassedBytes() < kMinBytes)
      continue;
    group.mark(numbers++);
    shrinkTemporaries(group.getCommands(), tiles);
    ++numGroups;
    numCommands += group.getCommands().size();
  }
}

void TileCommandsPass::runOnOperation() {
  numbers = 0;
  for (auto program : getOperation().getOps<plan::ProgramOp>())
    visit(program);
}
