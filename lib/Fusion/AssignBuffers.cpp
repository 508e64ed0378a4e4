//===- AssignBuffers.cpp - One arena for all temporaries ------------------===//
//
// Walks the program once. A temporary gets its place when it is first written
// and gives it back after its last use; the smallest hole that fits is taken.
// An output that may be written element by element over an input that dies
// there takes its place and saves the cache a second stream.
//
//===----------------------------------------------------------------------===//

#include "scalify/Fusion/Passes.h"

#include <map>

namespace scalify {
#define GEN_PASS_DEF_ASSIGNBUFFERS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static constexpr int64_t kAlignment = 64;

namespace {
/// Holes of the arena by offset; it grows at its end.
class Arena {
public:
  int64_t take(int64_t bytes) {
    bytes = llvm::alignTo(std::max<int64_t>(bytes, 1), kAlignment);
    auto best = holes.end();
    for (auto it = holes.begin(); it != holes.end(); ++it)
      if (it->second >= bytes &&
          (best == holes.end() || it->second < best->second))
        best = it;
    if (best != holes.end()) {
      auto [offset, size] = *best;
      holes.erase(best);
      if (size > bytes)
        holes[offset + bytes] = size - bytes;
      return offset;
    }
    // Extend a hole at the end, or the arena itself.
    int64_t offset = end;
    if (!holes.empty()) {
      auto last = std::prev(holes.end());
      if (last->first + last->second == end) {
        offset = last->first;
        holes.erase(last);
      }
    }
    end = offset + bytes;
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    bytes = llvm::alignTo(std::max<int64_t>(bytes, 1), kAlignment);
    auto next = holes.lower_bound(offset);
    if (next != holes.end() && offset + bytes == next->first) {
      bytes += next->second;
      next = holes.erase(next);
    }
    if (next != holes.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    holes[offset] = bytes;
  }

  int64_t size() const { return end; }

private:
  std::map<int64_t, int64_t> holes;
  int64_t end = 0;
};

class AssignBuffersPass
    : public scalify::impl::AssignBuffersBase<AssignBuffersPass> {
public:
  using AssignBuffersBase::AssignBuffersBase;
  void runOnOperation() override;

private:
  void assign(plan::ProgramOp program);
};
} // namespace

// The read of `kernel` whose memory `out` may take: dies here, is read element
// by element, has elements of the same size, and no other stream reads it
// still.
static int findHandOver(plan::KernelOp kernel, Value out, int64_t position,
                        llvm::DenseMap<Value, plan::LiveRange> &ranges,
                        llvm::DenseSet<Value> &taken) {
  auto safe = kernel->getAttrOfType<DenseI64ArrayAttr>(plan::kElementwiseAttr);
  if (!safe)
    return -1;
  auto wholes = llvm::map_to_vector(kernel.getReads(), plan::getWhole);
  for (int64_t index : safe.asArrayRef()) {
    Value in = kernel.getReads()[index];
    auto range = ranges.find(in);
    if (range == ranges.end() || range->second.last != position ||
        !range->second.isLastAlone || taken.contains(in) ||
        llvm::count(wholes, in) != 1)
      continue;
    auto inType = cast<MemRefType>(in.getType());
    auto outType = cast<MemRefType>(out.getType());
    if (inType.getNumElements() == outType.getNumElements() &&
        plan::elementBytes(inType.getElementType()) ==
            plan::elementBytes(outType.getElementType()))
      return index;
  }
  return -1;
}

// Ranks exchange in place what is as large as what comes of it, where a whole
// temporary dies in the collective.
static bool isHandedOver(plan::CollectiveOp collective, int64_t position,
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
  Arena arena;
  llvm::DenseMap<Value, int64_t> offsets;
  llvm::DenseMap<int64_t, SmallVector<Value>> freed; // by position
  llvm::DenseSet<Value> handedOver;
  Builder b(program.getContext());
  for (auto [index, op] : llvm::enumerate(block)) {
    int64_t position = index;
    for (Value value : freed.lookup(position))
      if (!handedOver.contains(value))
        arena.give(offsets[value], plan::bufferBytes(value));
    if (isa<plan::TempOp>(op))
      continue;
    llvm::SetVector<Value> used;
    for (Value operand : llvm::map_range(op.getOperands(), plan::getWhole))
      if (ranges.count(operand))
        used.insert(operand);
    llvm::DenseSet<Value> taken;
    SmallVector<int64_t> pairs;
    auto kernel = dyn_cast<plan::KernelOp>(op);
    if (kernel && kernel.getInplace())
      pairs.append(kernel.getInplace()->begin(), kernel.getInplace()->end());
    auto collective = dyn_cast<plan::CollectiveOp>(op);
    if (collective && isHandedOver(collective, position, ranges)) {
      handedOver.insert(collective.getSource());
      offsets[collective.getDestination()] = offsets[collective.getSource()];
      ++numInPlace;
    }
    for (Value value : used) {
      if (ranges[value].first != position || offsets.contains(value))
        continue;
      // A part is written where its whole will be.
      if (kernel && llvm::is_contained(kernel.getWrites(), value)) {
        int from = findHandOver(kernel, value, position, ranges, taken);
        if (from >= 0) {
          Value in = kernel.getReads()[from];
          taken.insert(in);
          handedOver.insert(in);
          offsets[value] = offsets[in];
          int64_t write = llvm::find(kernel.getWrites(), value) -
                          kernel.getWrites().begin();
          pairs.append({write, from});
          ++numInPlace;
          continue;
        }
      }
      offsets[value] = arena.take(plan::bufferBytes(value));
    }
    for (Value value : used)
      if (ranges[value].last == position)
        freed[ranges[value].held + 1].push_back(value);
    if (kernel) {
      if (!pairs.empty())
        kernel.setInplace(pairs);
      kernel->removeAttr(plan::kElementwiseAttr);
    }
  }
  // Parts stand behind their wholes.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    auto temp = dyn_cast<plan::TempOp>(op);
    if (temp && temp.getMemory().use_empty())
      temp.erase();
    else if (temp)
      temp.setOffset(offsets[plan::getWhole(temp.getMemory())] +
                     temp.getStart().value_or(0));
  }
  program.setArenaBytes(arena.size());
  arenaBytes += arena.size();
}

void AssignBuffersPass::runOnOperation() {
  for (auto program : getOperation().getOps<plan::ProgramOp>())
    assign(program);
}
