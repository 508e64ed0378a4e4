//===- PlanStreams.cpp - Order of commands on streams ---------------------===//
//
// Commands of one stream run in order; across streams a wait comes after the
// record of its event. An op's clock is the number of ops of each stream that
// are done when it starts.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Plan/PlanStreams.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>
#include <set>

using namespace mlir;
using namespace scalify::plan;

int64_t scalify::plan::streamOf(Operation *command) {
  if (auto record = dyn_cast<RecordOp>(command))
    return record.getStream();
  if (auto wait = dyn_cast<WaitOp>(command))
    return wait.getStream();
  auto attr = command->getAttrOfType<IntegerAttr>(kStreamAttr);
  return attr ? attr.getInt() : 0;
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

static bool isReadOnly(OpOperand &operand) {
  unsigned index = operand.getOperandNumber();
  return llvm::TypeSwitch<Operation *, bool>(operand.getOwner())
      .Case([&](KernelOp kernel) { return index < kernel.getReads().size(); })
      .Case([&](GemmOp gemm) {
        return operand.get() != gemm.getC() &&
               (index < 2 || operand.get() == gemm.getBias() ||
                operand.get() == gemm.getSaved() ||
                operand.get() == gemm.getInto() ||
                llvm::is_contained(gemm.getScales(), operand.get()));
      })
      .Case([&](AttentionOp attention) {
        return index < attention.getReads().size();
      })
      .Case([&](LapackOp lapack) { return index < lapack.getReads().size(); })
      .Case([&](HostCallOp call) {
        return !llvm::is_contained(call.getWrites(), operand.get()) &&
               operand.get() != call.getDone();
      })
      .Case([&](LoopOp loop) {
        unsigned carries = loop.getCarries().size();
        return index >= carries && index < carries + loop.getReads().size();
      })
      .Case<CollectiveOp, CopyOp>([&](auto) { return index == 0; })
      .Case([](MessageOp message) { return message.isSend(); })
      .Default([](Operation *) { return false; });
}

/// Returns the byte at which a part of an argument or result begins.
static int64_t getOffset(Operation *op) {
  auto offset = op->getAttrOfType<IntegerAttr>(kOffsetAttr);
  return offset ? offset.getInt() : 0;
}

/// Returns the memory of a buffer; none for constants.
static std::optional<Access> placeOf(Value buffer) {
  enum : uint8_t { Arg, Result, Temp, Arena, Tile };
  Access access = {{Arg, 0}, 0, bufferBytes(buffer), false};
  auto at = [&](int kind, int64_t which, int64_t begin) {
    access.memory = {kind, which};
    access.begin += begin;
    access.end += begin;
    return access;
  };
  return llvm::TypeSwitch<Operation *, std::optional<Access>>(
             buffer.getDefiningOp())
      .Case(
          [&](ArgumentOp op) { return at(Arg, op.getIndex(), getOffset(op)); })
      .Case([&](ResultOp op) {
        return op.getAliasArg() ? at(Arg, *op.getAliasArg(), getOffset(op))
                                : at(Result, op.getIndex(), getOffset(op));
      })
      .Case([&](TempOp op) {
        if (op.getOffset() && op.getTiles()) {
          access.end /= static_cast<int64_t>(*op.getTiles());
          return at(Tile, 0, *op.getOffset());
        }
        if (op.getOffset())
          return at(Arena, 0, *op.getOffset());
        auto whole = getWhole(buffer).getAsOpaquePointer();
        return at(Temp, reinterpret_cast<intptr_t>(whole),
                  op.getStart().value_or(0));
      })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Access> scalify::plan::accessOf(OpOperand &operand) {
  if (!isa<MemRefType>(operand.get().getType()) ||
      isa<TempOp>(operand.getOwner()))
    return std::nullopt;
  std::optional<Access> access = placeOf(operand.get());
  if (access)
    access->isWrite = !isReadOnly(operand);
  return access;
}

SmallVector<Access> scalify::plan::accessesOf(Operation *command) {
  SmallVector<Access> accesses;
  for (OpOperand &operand : command->getOpOperands())
    if (std::optional<Access> access = accessOf(operand))
      accesses.push_back(*access);
  return accesses;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

StreamOrder::StreamOrder(ProgramOp program) {
  Block &block = program.getBody().front();
  for (Operation &op : block)
    streams = std::max(streams, streamOf(&op) + 1);
  positions.resize(streams);
  std::map<int64_t, int64_t> recorded; // event to position
  SmallVector<int64_t> now(streams * streams, 0);
  for (auto [position, op] : llvm::enumerate(block)) {
    int64_t own = streamOf(&op);
    int64_t *clock = &now[own * streams];
    if (auto wait = dyn_cast<WaitOp>(op))
      if (auto found = recorded.find(wait.getEvent()); found != recorded.end())
        for (int64_t s = 0; s < streams; ++s)
          clock[s] = std::max(clock[s], seen(found->second, s));
    stream.push_back(own);
    ordinal.push_back(clock[own]);
    clocks.append(clock, clock + streams);
    positions[own].push_back(position);
    if (auto record = dyn_cast<RecordOp>(op))
      recorded[record.getEvent()] = position;
    ++clock[own];
  }
}

bool StreamOrder::isBefore(int64_t first, int64_t second) const {
  return seen(second, stream[first]) > ordinal[first];
}

int64_t StreamOrder::getLastConcurrent(ArrayRef<int64_t> touches) const {
  int64_t last = touches.back();
  if (!isConcurrent())
    return last;
  for (const SmallVector<int64_t> &own : positions) {
    // Along a stream, the set of ops known to be done only grows.
    auto free = llvm::partition_point(own, [&](int64_t position) {
      return !llvm::all_of(
          touches, [&](int64_t touch) { return isBefore(touch, position); });
    });
    if (free != own.begin())
      last = std::max(last, *std::prev(free));
  }
  return last;
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

static LogicalResult verifyEvents(Block &block) {
  std::set<int64_t> recorded;
  for (Operation &op : block) {
    if (int64_t stream = streamOf(&op); stream < 0 || stream >= kMaxStreams)
      return op.emitOpError("is on stream ")
             << stream << ", but there are at most " << kMaxStreams;
    // Stream 0 keeps the one work space that attentions share.
    if (isa<AttentionOp>(op) && streamOf(&op) != 0)
      return op.emitOpError("is on stream ")
             << streamOf(&op) << ", and attentions run on stream 0";
    if (auto record = dyn_cast<RecordOp>(op))
      if (!recorded.insert(record.getEvent()).second)
        return op.emitOpError("records event ")
               << record.getEvent() << " a second time";
    if (auto wait = dyn_cast<WaitOp>(op))
      if (recorded.count(wait.getEvent()) == 0)
        return op.emitOpError("waits for event ")
               << wait.getEvent() << ", which is not recorded before";
  }
  return success();
}

namespace {
struct Touch {
  Access access;
  Operation *op;
  int64_t position;
};
} // namespace

/// Removes the bytes of `access` from touches for which `isCovered`: a command
/// ordered after the access is then ordered after the touch too.
static void forget(SmallVector<Touch> &touches, const Access &access,
                   llvm::function_ref<bool(const Touch &)> isCovered) {
  SmallVector<Touch> rest;
  for (const Touch &touch : touches) {
    if (touch.access.end <= access.begin || access.end <= touch.access.begin ||
        !isCovered(touch)) {
      rest.push_back(touch);
      continue;
    }
    Touch head = touch, tail = touch;
    head.access.end = access.begin;
    tail.access.begin = access.end;
    for (const Touch &part : {head, tail})
      if (part.access.begin < part.access.end)
        rest.push_back(part);
  }
  touches = std::move(rest);
}

/// Ranks match each other's collectives by their order.
static LogicalResult verifyCollectives(Block &block, const StreamOrder &order) {
  int64_t last = -1;
  for (auto [position, op] : llvm::enumerate(block)) {
    if (!isa<CollectiveOp, MessageOp>(op))
      continue;
    int64_t now = position;
    if (last >= 0 && !order.isBefore(last, now))
      return op.emitOpError("may run beside another collective, but all "
                            "collectives of a program need an order");
    last = now;
  }
  return success();
}

LogicalResult scalify::plan::verifyStreams(ProgramOp program) {
  Block &block = program.getBody().front();
  if (failed(verifyEvents(block)))
    return failure();
  StreamOrder order(program);
  if (!order.isConcurrent())
    return success();
  if (failed(verifyCollectives(block, order)))
    return failure();
  llvm::MapVector<std::pair<int, int64_t>, SmallVector<Touch>> touched;
  for (auto [position, op] : llvm::enumerate(block)) {
    int64_t now = position;
    for (const Access &access : accessesOf(&op)) {
      SmallVector<Touch> &earlier = touched[access.memory];
      for (Touch &touch : earlier) {
        if (touch.position == now || !access.conflictsWith(touch.access) ||
            order.isBefore(touch.position, now))
          continue;
        InFlightDiagnostic diag = op.emitOpError(
            "touches bytes that a command of another stream touches, and "
            "neither waits for the other");
        diag.attachNote(touch.op->getLoc()) << "the other command";
        return diag;
      }
      forget(earlier, access, [&](const Touch &touch) {
        return touch.position != now && order.isBefore(touch.position, now) &&
               (access.isWrite || !touch.access.isWrite);
      });
      earlier.push_back({access, &op, now});
    }
  }
  return success();
}
