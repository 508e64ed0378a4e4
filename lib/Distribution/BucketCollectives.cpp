//===- BucketCollectives.cpp - Merge small collectives into buckets -------===//
//
// As in Megatron-LLaMA's overlapped optimizer, arrays that become ready one
// after the other share one message. A rank's shard of a bucket is the
// concatenation of its shards of the arrays, which stay separate around it.
//
//===----------------------------------------------------------------------===//

#include "Chunks.h"
#include "NarrowMoves.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Collectives.h"
#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Distribution/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace scalify {
#define GEN_PASS_DEF_BUCKETCOLLECTIVESPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// The first early bucket and the last late one hold 1/kEdgeFraction of
/// `bytes`: little is waited for before the first compute, and little is in
/// flight after the last.
static constexpr int64_t kEdgeFraction = 4;

static int64_t bytesOf(Operation *op) { return countBytes(op->getOperand(0)); }

/// Collectives with equal keys may share a bucket: op, groups, element type,
/// reduction.
using Key = std::tuple<StringRef, Attribute, Type, StringRef>;

/// Adds, for pipelines, the chunk (forward, backward, micro-batch) and the
/// phase, since the optimizer is a task of its own.
using PlacedKey =
    std::pair<Key, std::tuple<int64_t, int64_t, int64_t, StringRef>>;

/// Returns the key of a collective on an array of rank 1, as shares are, or of
/// an all-reduce of any rank; none for other ops.
static std::optional<Key> getKey(Operation *op) {
  if (!isCollective(op) || op->getNumOperands() != 1)
    return std::nullopt;
  StringRef join;
  if (op->getNumRegions()) {
    Block &body = op->getRegion(0).front();
    if (!llvm::hasSingleElement(body.without_terminator()))
      return std::nullopt;
    join = body.front().getName().getStringRef();
  }
  bool isInRow = typeOf(op->getOperand(0)).getRank() == 1;
  bool isMet = isa<AllReduceOp>(op) ||
               (isInRow && isa<ReduceScatterOp, AllGatherOp, AllToAllOp>(op));
  if (!isMet)
    return std::nullopt;
  return Key(op->getName().getStringRef(), op->getAttr("replica_groups"),
             getElementTypeOrSelf(op->getOperand(0)), join);
}

//===----------------------------------------------------------------------===//
// A bucket
//===----------------------------------------------------------------------===//

namespace {
class Bucket {
public:
  Bucket(ArrayRef<Operation *> members, Operation *place)
      : members(members), first(members.front()), builder(place),
        loc(members.back()->getLoc()),
        ranks(isa<AllReduceOp>(first)
                  ? 1
                  : first->getAttrOfType<DenseIntElementsAttr>("replica_groups")
                        .getType()
                        .getDimSize(1)) {}
  /// Builds the merged collective and replaces the members' results. Returns
  /// the last op built.
  Operation *write();

private:
  Value reshape(Value value, ArrayRef<int64_t> shape) {
    if (typeOf(value).getShape() == shape)
      return value;
    return create<ReshapeOp>(value, shape);
  }
  template <typename Op, typename... Args> Op create(Args &&...args) {
    auto op = Op::create(builder, loc, std::forward<Args>(args)...);
    copyPhase(first, op);
    last = op;
    return op;
  }

  ArrayRef<Operation *> members;
  Operation *first, *last = nullptr;
  OpBuilder builder;
  Location loc;
  int64_t ranks; // of a group; 1 for all-reduces, which send no parts
};
} // namespace

Operation *Bucket::write() {
  bool sendsParts = !isa<AllGatherOp>(first);
  bool receivesParts = !isa<ReduceScatterOp>(first);
  int64_t rowsSent = sendsParts ? ranks : 1;
  int64_t rowsReceived = receivesParts ? ranks : 1;
  SmallVector<Value> sent;
  for (Operation *member : members) {
    Value value = member->getOperand(0);
    int64_t columns = typeOf(value).getNumElements() / rowsSent;
    sent.push_back(reshape(value, {rowsSent, columns}));
  }
  Value all = create<ConcatenateOp>(sent, /*dimension=*/1);
  int64_t width = typeOf(all).getDimSize(1);
  IRMapping map;
  map.map(first->getOperand(0), reshape(all, {rowsSent * width}));
  Operation *bucket = builder.clone(*first, map);
  bucket->getResult(0).setType(typeOf(all).clone({rowsReceived * width}));
  Value got = reshape(bucket->getResult(0), {rowsReceived, width});
  int64_t at = 0;
  for (auto [member, value] : llvm::zip_equal(members, sent)) {
    int64_t columns = typeOf(value).getDimSize(1);
    Value part = create<SliceOp>(got, 1, at, at + columns);
    at += columns;
    member->getResult(0).replaceAllUsesWith(
        reshape(part, typeOf(member->getResult(0)).getShape()));
  }
  return last;
}

//===----------------------------------------------------------------------===//
// Choosing members
//===----------------------------------------------------------------------===//

namespace {
struct BucketCollectivesPass
    : scalify::impl::BucketCollectivesPassBase<BucketCollectivesPass> {
  using BucketCollectivesPassBase::BucketCollectivesPassBase;
  void runOnOperation() override;

private:
  void bucketAll(Block &block);
  void bucketEarly(ArrayRef<Operation *> ops);
  void bucketLate(ArrayRef<Operation *> ops);
  void write(ArrayRef<Operation *> members, Operation *place);

  // Late collectives that a dependence, often through another collective, keeps
  // out of one bucket. Later rounds try them again.
  llvm::DenseSet<Operation *> apart;
  bool isFirstRound = true, hasBucketed = false;
};
} // namespace

/// Returns the ops before `anchor` that depend on `op`, in block order. Fails
/// if `anchor` depends on `op`, or if one of them is a collective or has side
/// effects.
static FailureOr<SmallVector<Operation *>> getFollowers(Operation *op,
                                                        Operation *anchor) {
  llvm::SetVector<Operation *> found;
  SmallVector<Operation *> next = {op};
  while (!next.empty())
    for (Operation *user : next.pop_back_val()->getUsers()) {
      Operation *around = op->getBlock()->findAncestorOpInBlock(*user);
      if (around == anchor)
        return failure(); // the anchor needs the bucket's result
      if (!around->isBeforeInBlock(anchor) || found.contains(around))
        continue;
      if (isCollective(around) || !isMemoryEffectFree(around))
        return failure();
      found.insert(around);
      next.push_back(around);
    }
  SmallVector<Operation *> ordered = found.takeVector();
  llvm::sort(ordered,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ordered;
}

void BucketCollectivesPass::write(ArrayRef<Operation *> members,
                                  Operation *place) {
  if (members.size() < 2)
    return;
  llvm::SetVector<Operation *> followers;
  for (Operation *member : members) {
    FailureOr<SmallVector<Operation *>> found = getFollowers(member, place);
    assert(succeeded(found) && "members must be independent");
    followers.insert(found->begin(), found->end());
  }
  Operation *last = Bucket(members, place).write();
  SmallVector<Operation *> ordered = followers.takeVector();
  llvm::sort(ordered,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *follower : ordered) {
    follower->moveAfter(last);
    last = follower;
  }
  for (Operation *member : members) {
    apart.erase(member);
    member->erase();
  }
  hasBucketed = true;
  numBuckets += 1;
  numBucketed += members.size();
}

/// Returns the first dot, convolution, gather, region op, collective or
/// terminator that reads the gathered value, also through casts, moves and
/// scalings; null if there is none.
static Operation *getFirstReader(Operation *op) {
  Operation *first = nullptr;
  llvm::SetVector<Operation *> seen;
  SmallVector<Operation *> next = {op};
  while (!next.empty())
    for (Operation *user : next.pop_back_val()->getUsers()) {
      Operation *around = op->getBlock()->findAncestorOpInBlock(*user);
      if (!seen.insert(around))
        continue;
      bool reads = isa<DotGeneralOp, ConvolutionOp, GatherOp>(around) ||
                   around->getNumRegions() || isCollective(around) ||
                   around == op->getBlock()->getTerminator();
      if (!reads)
        next.push_back(around);
      else if (!first || around->isBeforeInBlock(first))
        first = around;
    }
  return first;
}

/// Sorts all-gathers by their first readers, then by program order.
static void sortByReaders(MutableArrayRef<Operation *> gathers) {
  using Read = std::tuple<Operation *, size_t, Operation *>;
  SmallVector<Read> reads;
  for (auto [place, op] : llvm::enumerate(gathers))
    reads.emplace_back(getFirstReader(op), place, op);
  llvm::sort(reads, [](const Read &a, const Read &b) {
    auto [first, placeOfFirst, _] = a;
    auto [second, placeOfSecond, _2] = b;
    if (first == second)
      return placeOfFirst < placeOfSecond;
    return first && (!second || first->isBeforeInBlock(second));
  });
  for (auto [place, read] : llvm::enumerate(reads))
    gathers[place] = std::get<2>(read);
}

/// Buckets all-gathers that can be sent when the step starts, in the given
/// order. The first bucket is small. An operand of at least the bucket size is
/// sent by itself, in the same order, and does not close the open bucket.
void BucketCollectivesPass::bucketEarly(ArrayRef<Operation *> ops) {
  SmallVector<SmallVector<Operation *>> buckets;
  int64_t held = 0, room = bytes / kEdgeFraction;
  size_t open = 0;
  for (Operation *op : ops) {
    if (bytesOf(op) >= bytes) {
      buckets.push_back({op});
      continue;
    }
    bool isFull = held && held + bytesOf(op) > room;
    if (isFull)
      room = bytes;
    if (isFull || !held) {
      held = 0;
      open = buckets.size();
      buckets.emplace_back();
    }
    buckets[open].push_back(op);
    held += bytesOf(op);
  }
  // No bucket is placed after a later one.
  SmallVector<Operation *> places(buckets.size());
  Operation *place = nullptr;
  for (size_t i = buckets.size(); i-- > 0; places[i] = place)
    for (Operation *member : buckets[i])
      if (!place || member->isBeforeInBlock(place))
        place = member;
  for (auto [members, at] : llvm::zip_equal(buckets, places)) {
    for (Operation *member : members)
      hoist(member->getOperand(0), at);
    if (members.size() > 1)
      write(members, at);
    else if (members.front() != at)
      members.front()->moveBefore(at);
  }
}

/// Buckets collectives that become ready during the step. The last bucket is
/// small. A bucket is placed at its last member.
void BucketCollectivesPass::bucketLate(ArrayRef<Operation *> ops) {
  int64_t behind = 0; // bytes from this op to the last one
  llvm::DenseMap<Operation *, int64_t> rest;
  for (Operation *op : llvm::reverse(ops))
    rest[op] = behind += bytesOf(op);
  SmallVector<Operation *> members;
  int64_t held = 0;
  bool isInLastBucket = false;
  for (Operation *op : ops) {
    bool startsLastBucket =
        !isInLastBucket && behind > bytes && rest[op] <= bytes / kEdgeFraction;
    isInLastBucket |= startsLastBucket;
    bool isApart = llvm::any_of(members, [&](Operation *member) {
      return failed(getFollowers(member, op));
    });
    if (isApart) {
      apart.insert(op);
      apart.insert(members.begin(), members.end());
    }
    bool fits = held + bytesOf(op) <= bytes && !startsLastBucket && !isApart;
    if (!fits) {
      if (!members.empty())
        write(members, members.back());
      members.clear();
      held = 0;
    }
    members.push_back(op);
    held += bytesOf(op);
  }
  if (!members.empty())
    write(members, members.back());
}

void BucketCollectivesPass::bucketAll(Block &block) {
  llvm::MapVector<PlacedKey, std::pair<SmallVector<Operation *>,
                                       SmallVector<Operation *>>>
      found; // early and late collectives
  std::optional<Chunks> chunks;
  if (byChunk)
    chunks.emplace(block);
  Operation *first = nullptr;
  for (Operation &op : block) {
    if (!first && isCollective(&op))
      first = &op;
    std::optional<Key> key = getKey(&op);
    if (!key || (!isFirstRound && !apart.contains(&op)))
      continue;
    bool isEarly = isa<AllGatherOp>(op) && canHoist(op.getOperand(0), first);
    PlacedKey placed(*key, {0, 0, 0, ""});
    if (chunks) {
      PhaseAttr phase = getPhaseAttr(&op);
      placed.second = std::tuple_cat(
          chunks->placeOf(&op).asTuple(),
          std::tuple(phase ? stringifyPhase(phase.getValue()) : StringRef("")));
    }
    auto &[early, late] = found[placed];
    (isEarly ? early : late).push_back(&op);
  }
  for (auto &[key, ops] : found) {
    sortByReaders(ops.first);
    bucketEarly(ops.first);
    bucketLate(ops.second);
  }
}

void BucketCollectivesPass::runOnOperation() {
  auto main = getOperation().lookupSymbol<func::FuncOp>("main");
  if (bytes <= 0 || !main || main.isExternal())
    return;
  // Collectives between others, such as the amaxes by which gradients are cast
  // before their sum, keep those apart until they are bucketed themselves.
  do {
    hasBucketed = false;
    bucketAll(main.getBody().front());
    isFirstRound = false;
  } while (hasBucketed);
}
