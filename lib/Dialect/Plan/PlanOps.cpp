//===- PlanOps.cpp - Verification of plans --------------------------------===//
//
// Checks the invariants that the runtime assumes: shapes of kernels match
// buffers, GEMMs stay in bounds, temporaries that live together do not overlap,
// and in-place writes are legal.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Plan/PlanInPlace.h"
#include "scalify/Dialect/Plan/PlanStreams.h"
#include "scalify/Dialect/Plan/PlanTiles.h"

#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;
using namespace scalify::plan;

#include "scalify/Dialect/Plan/PlanEnums.cpp.inc"

#define GET_OP_CLASSES
#include "scalify/Dialect/Plan/PlanOps.cpp.inc"

int64_t scalify::plan::elementBytes(Type type) {
  return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
}

bool scalify::plan::isBufferType(Type type) {
  auto buffer = dyn_cast<MemRefType>(type);
  if (!buffer || !buffer.hasStaticShape() || !buffer.getLayout().isIdentity() ||
      !buffer.getElementType().isIntOrFloat())
    return false;
  int64_t bytes = elementBytes(buffer.getElementType());
  return llvm::none_of(buffer.getShape(), [&](int64_t extent) {
    return llvm::MulOverflow(bytes, extent, bytes);
  });
}

int64_t scalify::plan::bufferBytes(Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  return type.getNumElements() * elementBytes(type.getElementType());
}

bool scalify::plan::isBuffer(Operation *op) {
  return isa<TempOp, ConstantOp, ArgumentOp, ResultOp, RankOp>(op);
}

Value scalify::plan::getWhole(Value buffer) {
  auto temp = buffer.getDefiningOp<TempOp>();
  return temp && temp.getWhole() ? temp.getWhole() : buffer;
}

llvm::DenseMap<Value, LiveRange>
scalify::plan::computeLiveRanges(ProgramOp program) {
  llvm::DenseMap<Value, LiveRange> ranges;
  llvm::DenseMap<Value, SmallVector<int64_t>> touches;
  for (auto [position, op] : llvm::enumerate(program.getBody().front())) {
    if (isa<TempOp>(op))
      continue;
    for (Value operand : llvm::map_range(op.getOperands(), getWhole)) {
      if (!operand.getDefiningOp<TempOp>())
        continue;
      LiveRange &range = ranges[operand];
      if (range.first < 0)
        range.first = position;
      range.last = position;
      touches[operand].push_back(position);
    }
  }
  // Tiles of all commands of a group run at the same time.
  for (const TileGroup &group : findTileGroups(program))
    for (auto &[value, range] : ranges) {
      if (countOwnTiles(value) ||
          llvm::none_of(touches[value], [&](int64_t position) {
            return group.first <= position && position <= group.last;
          }))
        continue;
      range.first = std::min(range.first, group.first);
      range.last = std::max(range.last, group.last);
      SmallVector<int64_t> &positions = touches[value];
      positions.insert(llvm::upper_bound(positions, group.last), group.last);
    }
  StreamOrder order(program);
  for (auto &[value, range] : ranges) {
    range.held = order.getLastConcurrent(touches[value]);
    range.isLastAlone =
        llvm::all_of(touches[value], [&, last = range.last](int64_t position) {
          return position == last || order.isBefore(position, last);
        });
  }
  return ranges;
}

bool scalify::plan::isInPlacePair(KernelOp kernel, Value out, Value in) {
  ArrayRef<int64_t> pairs = kernel.getInplace().value_or(ArrayRef<int64_t>());
  for (size_t i = 0; i + 1 < pairs.size(); i += 2)
    if (kernel.getWrites()[pairs[i]] == out &&
        kernel.getReads()[pairs[i + 1]] == in)
      return true;
  return false;
}

//===----------------------------------------------------------------------===//
// ProgramOp
//===----------------------------------------------------------------------===//

namespace {
struct Placed {
  TempOp temp;
  LiveRange range;
  int64_t begin, end;
};
} // namespace

// True if `after` may overwrite `before` in the command that reads it last.
static bool canOverwrite(Placed &before, Placed &after, Block &block) {
  if (before.range.last != after.range.first ||
      before.range.first == after.range.first)
    return false;
  Operation &command = *std::next(block.begin(), before.range.last);
  if (auto collective = dyn_cast<CollectiveOp>(command))
    return collective.getSource() == before.temp.getMemory() &&
           collective.getDestination() == after.temp.getMemory() &&
           before.begin == after.begin && before.end == after.end;
  auto kernel = dyn_cast<KernelOp>(command);
  return kernel &&
         isInPlacePair(kernel, after.temp.getMemory(), before.temp.getMemory());
}

static SmallVector<Value> getWrites(Operation &command) {
  SmallVector<Value> writes;
  for (OpOperand &operand : command.getOpOperands())
    if (std::optional<Access> access = accessOf(operand);
        access && access->isWrite)
      writes.push_back(operand.get());
  return writes;
}

// No command may read an argument, or a part of it, after the result that takes
// its memory is written.
static LogicalResult verifyAliases(Block &block) {
  std::map<int64_t, Value> results; // by the argument
  for (ResultOp result : block.getOps<ResultOp>())
    if (std::optional<int64_t> argument = result.getAliasArg();
        argument && !result->hasAttr(kOffsetAttr))
      results[*argument] = result.getMemory();
  llvm::DenseSet<Value> written;
  for (Operation &command : block) {
    SmallVector<Value> writes = getWrites(command);
    for (Value operand : command.getOperands()) {
      auto argument = operand.getDefiningOp<ArgumentOp>();
      auto found = argument ? results.find(argument.getIndex()) : results.end();
      Value result = found == results.end() ? Value() : found->second;
      if (!result)
        continue;
      auto kernel = dyn_cast<KernelOp>(command);
      bool isInPlace = kernel && isInPlacePair(kernel, result, operand);
      if (written.contains(result) ||
          (llvm::is_contained(writes, result) && !isInPlace))
        return command.emitOpError("reads argument ")
               << argument.getIndex()
               << ", whose memory a result has overwritten";
    }
    written.insert(writes.begin(), writes.end());
  }
  return success();
}

/// Fails if two of the temporaries, of one memory, live at the same time and
/// share bytes.
static LogicalResult verifyApart(MutableArrayRef<Placed> placed, Block &block) {
  llvm::sort(placed, [](const Placed &a, const Placed &b) {
    return a.range.first < b.range.first;
  });
  SmallVector<Placed *> live;
  for (Placed &next : placed) {
    llvm::erase_if(
        live, [&](Placed *old) { return old->range.last < next.range.first; });
    for (Placed *old : live)
      if (old->begin < next.end && next.begin < old->end &&
          !canOverwrite(*old, next, block)) {
        InFlightDiagnostic diag = next.temp->emitOpError(
            "shares memory with another temporary that is live");
        diag.attachNote(old->temp.getLoc()) << "the other temporary";
        return diag;
      }
    live.push_back(&next);
  }
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  Block &block = getBody().front();
  if (failed(verifyAliases(block)) || failed(verifyInPlace(*this)) ||
      failed(verifyWritten(*this)) || failed(verifyStreams(*this)) ||
      failed(verifyTiles(*this)))
    return failure();
  if (!getArenaBytes())
    return success();
  SmallVector<Placed> inArena, inTile;
  llvm::DenseMap<Value, LiveRange> ranges = computeLiveRanges(*this);
  for (TempOp temp : block.getOps<TempOp>()) {
    LiveRange range = ranges.lookup(temp.getMemory());
    if (range.first < 0)
      continue;
    if (!temp.getOffset())
      return temp.emitOpError("has no offset, but the program has an arena");
    auto tiles = static_cast<int64_t>(temp.getTiles().value_or(0));
    int64_t begin = *temp.getOffset();
    int64_t end =
        begin + bufferBytes(temp.getMemory()) / std::max<int64_t>(tiles, 1);
    auto bytes = static_cast<int64_t>(tiles ? getTileBytes().value_or(0)
                                            : *getArenaBytes());
    if (end > bytes)
      return temp.emitOpError("ends at byte ")
             << end << (tiles ? " of a thread's " : " of an arena of ") << bytes
             << " bytes";
    (tiles ? inTile : inArena).push_back({temp, range, begin, end});
  }
  return failure(failed(verifyApart(inArena, block)) ||
                 failed(verifyApart(inTile, block)));
}

LogicalResult TempOp::verify() {
  if (std::optional<uint64_t> tiles = getTiles()) {
    if (getWhole())
      return emitOpError("is memory of one tile, and cannot be a part");
    if (*tiles == 0 ||
        cast<MemRefType>(getMemory().getType()).getNumElements() % *tiles)
      return emitOpError("has no ") << *tiles << " equal tiles";
  }
  if (!getWhole())
    return success();
  if (!getStart())
    return emitOpError("is a part of a temporary, but has no 'start'");
  auto whole = getWhole().getDefiningOp<TempOp>();
  if (!whole || whole.getWhole())
    return emitOpError("must be a part of a temporary that is no part itself");
  auto start = static_cast<int64_t>(*getStart());
  int64_t end = start + bufferBytes(getMemory());
  if (start < 0 || end > bufferBytes(getWhole()))
    return emitOpError("has bytes ")
           << start << " to " << end << " of a temporary of "
           << bufferBytes(getWhole());
  if (getOffset() && whole.getOffset() &&
      *getOffset() != *whole.getOffset() + *getStart())
    return emitOpError("lies at byte ")
           << *getOffset() << ", but its whole at " << *whole.getOffset();
  return success();
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

static bool matches(Type tensor, Type buffer) {
  auto ranked = dyn_cast<RankedTensorType>(tensor);
  auto memory = cast<MemRefType>(buffer);
  return ranked && ranked.hasStaticShape() &&
         ranked.getElementType() == memory.getElementType() &&
         ranked.getNumElements() == memory.getNumElements();
}

LogicalResult KernelOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getReads().size())
    return emitOpError("reads ")
           << getReads().size() << " buffers, but its body has "
           << block.getNumArguments() << " arguments";
  for (auto [arg, buffer] : llvm::zip(block.getArguments(), getReads()))
    if (!matches(arg.getType(), buffer.getType()))
      return emitOpError("has body argument of type ")
             << arg.getType() << " for a buffer of type " << buffer.getType();
  Operation *yield = block.getTerminator();
  if (yield->getNumOperands() != getWrites().size())
    return emitOpError("writes ")
           << getWrites().size() << " buffers, but yields "
           << yield->getNumOperands() << " values";
  for (auto [value, buffer] : llvm::zip(yield->getOperands(), getWrites()))
    if (!matches(value.getType(), buffer.getType()))
      return emitOpError("yields a value of type ")
             << value.getType() << " for a buffer of type " << buffer.getType();
  ArrayRef<int64_t> pairs = getInplace().value_or(ArrayRef<int64_t>());
  auto isIndexOf = [](int64_t index, size_t count) {
    return index >= 0 && static_cast<size_t>(index) < count;
  };
  bool areValid = pairs.size() % 2 == 0;
  for (size_t i = 0; areValid && i < pairs.size(); i += 2)
    areValid = isIndexOf(pairs[i], getWrites().size()) &&
               isIndexOf(pairs[i + 1], getReads().size());
  if (!areValid)
    return emitOpError("has 'inplace' = [")
           << pairs << "]: expected pairs of the index of one of "
           << getWrites().size() << " writes and of one of "
           << getReads().size() << " reads";
  return success();
}

bool scalify::plan::isKeySide(unsigned matrix, bool isGradient) {
  // Forward: q k v, result. Gradient: q k v result grad, dq dk dv.
  return matrix == 1 || matrix == 2 || (isGradient && matrix > kGradientReads);
}

/// Returns the buffers of the attention without its statistics, and sets those.
static SmallVector<Value> getMatrices(AttentionOp op, Value &statistics) {
  SmallVector<Value> matrices(op.getReads());
  if (op.getGradient())
    statistics = matrices.pop_back_val();
  llvm::append_range(matrices, op.getWrites());
  if (!op.getGradient())
    statistics = matrices.pop_back_val();
  return matrices;
}

static LogicalResult verifyWindow(AttentionOp op, unsigned which, Value buffer,
                                  Type element) {
  ArrayRef<int64_t> sizes = op.getSizes();
  bool isKey = isKeySide(which, op.getGradient());
  ArrayRef<int64_t> window = op.getWindows().slice(4 * which, 4);
  auto type = cast<MemRefType>(buffer.getType());
  if (type.getElementType() != element)
    return op.emitOpError("has matrix ")
           << which << " of another format than the first";
  int64_t last = window[0] + (sizes[Batch] - 1) * window[1] +
                 (sizes[isKey ? KeyHeads : Heads] - 1) * window[2] +
                 (sizes[isKey ? Keys : Queries] - 1) * window[3] +
                 sizes[Channels] - 1;
  if (llvm::any_of(window, [](int64_t step) { return step < 0; }) ||
      last >= type.getNumElements())
    return op.emitOpError("touches element ")
           << last << " of matrix " << which << ", which has "
           << type.getNumElements();
  return success();
}

LogicalResult AttentionOp::verify() {
  unsigned reads = getGradient() ? kGradientReads + 1 : kForwardReads;
  unsigned writes = getGradient() ? 3 : 2;
  if (getReads().size() != reads || getWrites().size() != writes)
    return emitOpError("must read ")
           << reads << " buffers and write " << writes;
  ArrayRef<int64_t> sizes = getSizes();
  if (sizes.size() != NumAttentionSizes ||
      llvm::any_of(sizes, [](int64_t size) { return size < 1; }) ||
      sizes[Heads] % sizes[KeyHeads])
    return emitOpError("needs six positive sizes, heads a multiple of key "
                       "heads");
  if (getCausal() && sizes[Queries] != sizes[Keys])
    return emitOpError("is causal, and needs as many queries as keys");
  Value statistics;
  SmallVector<Value> matrices = getMatrices(*this, statistics);
  if (getWindows().size() != 4 * matrices.size())
    return emitOpError("needs an offset and three strides for each matrix");
  Type element = cast<MemRefType>(matrices[0].getType()).getElementType();
  if (!element.isBF16() && !element.isF16())
    return emitOpError("multiplies ") << element << ", not bf16 or f16";
  for (auto [which, buffer] : llvm::enumerate(matrices))
    if (failed(verifyWindow(*this, which, buffer, element)))
      return failure();
  auto type = cast<MemRefType>(statistics.getType());
  if (!type.getElementType().isF32() ||
      type.getNumElements() != sizes[Batch] * sizes[Heads] * sizes[Queries])
    return emitOpError("needs statistics of one F32 number a row, not ")
           << type;
  return success();
}

void InvokeOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (!getHasEffects())
    return;
  effects.emplace_back(MemoryEffects::Read::get());
  effects.emplace_back(MemoryEffects::Write::get());
}

LogicalResult CopyOp::verify() {
  if (bufferBytes(getSource()) != bufferBytes(getDestination()))
    return emitOpError("copies ")
           << bufferBytes(getSource()) << " bytes to a buffer of "
           << bufferBytes(getDestination());
  return success();
}
