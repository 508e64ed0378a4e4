//===- BucketCollectives.cpp - Several arrays by one message --------------===//
//
// As Megatron-LLaMA's overlapped optimizer: what becomes ready one after the
// other goes in buckets, each rank's share of a bucket being its shares of the
// arrays, one behind the other. Arrays stay arrays of their own around it.
//
//===----------------------------------------------------------------------===//

#include "Chunks.h"
#include "NarrowMoves.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Collectives.h"
#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
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

/// The part of a bucket that may go by itself, so that little is on its way
/// when nothing is left to be computed, or to compute when nothing has come.
static constexpr int64_t kEdge = 4;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t bytesOf(Operation *op) {
  RankedTensorType type = typeOf(op->getOperand(0));
  return type.getNumElements() * ((stablehlo::getElementBits(type) + 7) / 8);
}

/// What ops of one bucket have alike.
using Key = std::tuple<StringRef, Attribute, Type, StringRef>;

/// And what they have alike beside that where a pipeline is cut into chunks:
/// where they are and, since the optimizer is a task of its own, their phase.
using PlacedKey =
    std::pair<Key, std::tuple<int64_t, int64_t, int64_t, StringRef>>;

/// Arrays in a row, which is what shares are, and sums of any.
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
// One bucket
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
  /// Writes it; returns the last op.
  Operation *write();

private:
  Value reshape(Value value, ArrayRef<int64_t> shape) {
    if (typeOf(value).getShape() == shape)
      return value;
    return create<ReshapeOp>(typeOf(value).clone(shape), value);
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
  int64_t ranks; // rows of what is cut for them
};
} // namespace

Operation *Bucket::write() {
  bool isSentInParts = !isa<AllGatherOp>(first);
  bool comesInParts = !isa<ReduceScatterOp>(first);
  int64_t rowsSent = isSentInParts ? ranks : 1;
  int64_t rowsGot = comesInParts ? ranks : 1;
  SmallVector<Value> sent;
  int64_t width = 0;
  for (Operation *member : members) {
    Value value = member->getOperand(0);
    int64_t columns = typeOf(value).getNumElements() / rowsSent;
    sent.push_back(reshape(value, {rowsSent, columns}));
    width += columns;
  }
  Value all = create<ConcatenateOp>(typeOf(sent[0]).clone({rowsSent, width}),
                                    sent, /*dimension=*/1);
  IRMapping map;
  map.map(first->getOperand(0), reshape(all, {rowsSent * width}));
  Operation *bucket = builder.clone(*first, map);
  bucket->getResult(0).setType(typeOf(all).clone({rowsGot * width}));
  Value got = reshape(bucket->getResult(0), {rowsGot, width});
  int64_t at = 0;
  for (auto [member, value] : llvm::zip_equal(members, sent)) {
    int64_t columns = typeOf(value).getDimSize(1);
    Value part =
        create<SliceOp>(typeOf(got).clone({rowsGot, columns}), got,
                        builder.getDenseI64ArrayAttr({0, at}),
                        builder.getDenseI64ArrayAttr({rowsGot, at + columns}),
                        builder.getDenseI64ArrayAttr({1, 1}));
    at += columns;
    member->getResult(0).replaceAllUsesWith(
        reshape(part, typeOf(member->getResult(0)).getShape()));
  }
  return last;
}

//===----------------------------------------------------------------------===//
// Which ones
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

  // What another collective keeps apart from its neighbour: until that one goes
  // in a bucket.
  llvm::DenseSet<Operation *> apart;
  bool isFirstRound = true, hasBucketed = false;
};
} // namespace

/// What stands before `anchor` and follows from `op`, in the order of the
/// block; none where it holds another collective or cannot be moved.
static FailureOr<SmallVector<Operation *>> getFollowers(Operation *op,
                                                        Operation *anchor) {
  llvm::SetVector<Operation *> found;
  SmallVector<Operation *> next = {op};
  while (!next.empty())
    for (Operation *user : next.pop_back_val()->getUsers()) {
      Operation *around = op->getBlock()->findAncestorOpInBlock(*user);
      if (around == anchor)
        return failure(); // it needs what the bucket brings
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
    assert(succeeded(found) && "members are chosen so");
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

/// Where what a gather brings is first read by a product or by what is like
/// one; what casts, moves or scales it comes before. Null where nothing is.
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

/// In the order in which the step reads what they bring.
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

/// What can go when the step starts: the first bucket is a small one. They go
/// in the order in which they are begun, and so does what is as large as a
/// bucket, which goes alone and closes none.
void BucketCollectivesPass::bucketEarly(ArrayRef<Operation *> ops) {
  SmallVector<SmallVector<Operation *>> buckets;
  int64_t held = 0, room = bytes / kEdge;
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
  // No bucket stands behind the place of a later one.
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

/// What becomes ready in the course of the step: the last bucket is a small
/// one. It goes where its last member stood.
void BucketCollectivesPass::bucketLate(ArrayRef<Operation *> ops) {
  int64_t behind = 0; // bytes from an op to the end
  llvm::DenseMap<Operation *, int64_t> rest;
  for (Operation *op : llvm::reverse(ops))
    rest[op] = behind += bytesOf(op);
  SmallVector<Operation *> members;
  int64_t held = 0;
  bool isAtEdge = false;
  for (Operation *op : ops) {
    bool startsEdge = !isAtEdge && behind > bytes && rest[op] <= bytes / kEdge;
    isAtEdge |= startsEdge;
    bool isApart = llvm::any_of(members, [&](Operation *member) {
      return failed(getFollowers(member, op));
    });
    if (isApart) {
      apart.insert(op);
      apart.insert(members.begin(), members.end());
    }
    bool fits = held + bytesOf(op) <= bytes && !startsEdge && !isApart;
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
      found; // early and late ones
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
  // What one kind brings for another, as the maxima by which gradients are
  // cast for their sum, is apart until that goes in buckets.
  do {
    hasBucketed = false;
    bucketAll(main.getBody().front());
    isFirstRound = false;
  } while (hasBucketed);
}
