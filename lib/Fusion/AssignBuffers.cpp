//===- AssignBuffers.cpp - One arena for all temporaries ------------------===//
//
// Walks the program once. A temporary takes a block of the arena at its first
// write and frees it after its last use; offsets are assigned once all blocks
// are known. An output that may be written element by element over an input
// that dies there takes the input's block, which saves the cache a second
// stream.
//
//===----------------------------------------------------------------------===//

#include "PackArena.h"

#include "scalify/Dialect/Plan/PlanInPlace.h"
#include "scalify/Dialect/Plan/PlanTiles.h"
#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_ASSIGNBUFFERS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
struct AssignBuffersPass : scalify::impl::AssignBuffersBase<AssignBuffersPass> {
  void runOnOperation() override;

private:
  void assign(plan::ProgramOp program);
  void assignCallees(plan::ProgramOp program);
  LogicalResult visit(plan::ProgramOp program);

  llvm::DenseSet<Operation *> visited;
};
} // namespace

// Returns the read of `kernel` whose memory its output `write` may take, or -1:
// it dies here, may be overwritten in place, and no other stream still reads
// it.
static int findInPlaceRead(plan::KernelOp kernel,
                           const plan::ElementOrder &order, int64_t write,
                           int64_t position,
                           llvm::DenseMap<Value, plan::LiveRange> &ranges,
                           llvm::DenseSet<Value> &taken) {
  Block &body = kernel.getBody().front();
  auto wholes = llvm::map_to_vector(kernel.getReads(), plan::getWhole);
  // Other tiles of a group read what this one would overwrite.
  Value out = kernel.getWrites()[write];
  if (plan::tilingOf(kernel) && !plan::countOwnTiles(out))
    return -1;
  for (auto [index, in] : llvm::enumerate(kernel.getReads())) {
    auto range = ranges.find(in);
    if (plan::countOwnTiles(in) != plan::countOwnTiles(out))
      continue;
    if (range == ranges.end() || range->second.last != position ||
        !range->second.isLastAlone || taken.contains(in) ||
        llvm::count(wholes, in) != 1)
      continue;
    if (order.mayReplace(body.getTerminator()->getOperand(write),
                         body.getArgument(index)))
      return index;
  }
  return -1;
}

// True if the collective may run in place: its source is a whole temporary that
// dies here, as large as its destination.
static bool mayRunInPlace(plan::CollectiveOp collective, int64_t position,
                          llvm::DenseMap<Value, plan::LiveRange> &ranges) {
  Value in = collective.getSource(), out = collective.getDestination();
  auto source = ranges.find(in), destination = ranges.find(out);
  return source != ranges.end() && destination != ranges.end() &&
         source->second.last == position && source->second.isLastAlone &&
         destination->second.first == position &&
         plan::bufferBytes(in) == plan::bufferBytes(out);
}

void AssignBuffersPass::assign(plan::ProgramOp program) {
  Block &block = program.getBody().front();
  llvm::DenseMap<Value, plan::LiveRange> ranges =
      plan::computeLiveRanges(program);
  // Of the arena, and of a thread's memory for tiles.
  std::array<SmallVector<ArenaBlock>, 2> memories;
  llvm::DenseMap<Value, size_t> blockOf;
  auto blocksFor = [&](Value value) -> SmallVector<ArenaBlock> & {
    return memories[plan::countOwnTiles(value) > 0];
  };
  Builder b(program.getContext());
  for (auto [index, op] : llvm::enumerate(block)) {
    int64_t position = index;
    if (isa<plan::TempOp>(op))
      continue;
    llvm::SetVector<Value> used;
    for (Value operand : llvm::map_range(op.getOperands(), plan::getWhole))
      if (ranges.count(operand))
        used.insert(operand);
    llvm::DenseSet<Value> taken;
    std::optional<plan::ElementOrder> order;
    SmallVector<int64_t> pairs;
    auto kernel = dyn_cast<plan::KernelOp>(op);
    if (kernel && kernel.getInplace())
      pairs.append(kernel.getInplace()->begin(), kernel.getInplace()->end());
    auto collective = dyn_cast<plan::CollectiveOp>(op);
    if (collective && mayRunInPlace(collective, position, ranges)) {
      blockOf[collective.getDestination()] =
          blockOf.lookup(collective.getSource());
      ++numInPlace;
    }
    for (Value value : used) {
      if (blockOf.contains(value))
        continue;
      // A part of a temporary is written into the memory of its whole.
      if (kernel && llvm::is_contained(kernel.getWrites(), value)) {
        int64_t write =
            llvm::find(kernel.getWrites(), value) - kernel.getWrites().begin();
        if (!order)
          order.emplace(kernel);
        int from =
            findInPlaceRead(kernel, *order, write, position, ranges, taken);
        if (from >= 0) {
          Value in = kernel.getReads()[from];
          taken.insert(in);
          blockOf[value] = blockOf.lookup(in);
          pairs.append({write, from});
          ++numInPlace;
          continue;
        }
      }
      SmallVector<ArenaBlock> &blocks = blocksFor(value);
      blockOf[value] = blocks.size();
      int64_t first = ranges[value].first;
      int64_t tiles = std::max<int64_t>(plan::countOwnTiles(value), 1);
      blocks.push_back({plan::bufferBytes(value) / tiles, first, first});
    }
    for (Value value : used) {
      int64_t &last = blocksFor(value)[blockOf[value]].last;
      last = std::max(last, ranges[value].held);
    }
    if (kernel && !pairs.empty())
      kernel.setInplace(pairs);
  }
  int64_t bytes = packArena(memories[0]);
  int64_t tileBytes = packArena(memories[1]);
  // Parts come after their wholes, so the reverse walk erases unused parts
  // first.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    auto temp = dyn_cast<plan::TempOp>(op);
    if (temp && temp.getMemory().use_empty())
      temp.erase();
    else if (temp)
      temp.setOffset(
          blocksFor(temp.getMemory())[blockOf[plan::getWhole(temp.getMemory())]]
              .offset +
          temp.getStart().value_or(0));
  }
  program.setArenaBytes(bytes);
  if (tileBytes)
    program.setTileBytes(tileBytes);
  arenaBytes += bytes;
}

// Elements narrower than a byte are not addressable.
static LogicalResult checkElements(plan::ProgramOp program) {
  for (Operation &op : program.getBody().front())
    for (Type type : op.getResultTypes()) {
      auto buffer = dyn_cast<MemRefType>(type);
      if (!buffer || !buffer.getElementType().isInteger() ||
          buffer.getElementType().isInteger(1) ||
          buffer.getElementTypeBitWidth() % 8 == 0)
        continue;
      return op.emitOpError("has elements of ")
             << buffer.getElementType()
             << ", which an artefact cannot hold; make them 8 bits wide, and "
                "narrow them where they are used";
    }
  return success();
}

/// Gives each loop memory for the temporaries of its callee, whose arena is
/// assigned first.
void AssignBuffersPass::assignCallees(plan::ProgramOp program) {
  OpBuilder b = OpBuilder::atBlockBegin(&program.getBody().front());
  for (auto loop : program.getBody().getOps<plan::LoopOp>()) {
    auto callee =
        getOperation().lookupSymbol<plan::ProgramOp>(loop.getCallee());
    auto bytes = static_cast<int64_t>(callee.getArenaBytes().value_or(0));
    if (bytes == 0)
      continue;
    auto arena = plan::TempOp::create(
        b, loop.getLoc(), MemRefType::get({bytes}, b.getI8Type()), Value(),
        IntegerAttr(), IntegerAttr(), IntegerAttr());
    loop.getArenaMutable().assign(arena);
  }
}

LogicalResult AssignBuffersPass::visit(plan::ProgramOp program) {
  if (!visited.insert(program).second)
    return success();
  for (auto loop : program.getBody().getOps<plan::LoopOp>())
    if (failed(visit(
            getOperation().lookupSymbol<plan::ProgramOp>(loop.getCallee()))))
      return failure();
  if (failed(checkElements(program)))
    return failure();
  assignCallees(program);
  assign(program);
  return success();
}

void AssignBuffersPass::runOnOperation() {
  visited.clear();
  for (auto program : getOperation().getOps<plan::ProgramOp>())
    if (failed(visit(program)))
      return signalPassFailure();
}
