//===- RankJoins.cpp - Collectives in one process -------------------------===//
//
// A sum over ranks has one order, that of the group, so that the bits of a run
// on several ranks can be compared with it. Elements narrower than F32 are
// summed in F32 and rounded once, as by a rank that has received all parts.
//
//===----------------------------------------------------------------------===//

#include "RankJoins.h"

#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Collectives.h"
#include "scalify/Dialect/StableHLO/ElementRegions.h"
#include "scalify/Dialect/StableHLO/Values.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;

namespace {

class RankJoiner {
public:
  RankJoiner(OpBuilder &builder, Operation *op)
      : builder(builder), op(op), loc(op->getLoc()) {}

  /// Returns the ranks' results for one operand.
  FailureOr<RankValues> joinOperand(const RankValues &ranks);

private:
  using Members = SmallVector<Value>;
  /// Maps the members' operands of one group to their results, in group order.
  using JoinFn = llvm::function_ref<FailureOr<Members>(ArrayRef<Value>)>;
  FailureOr<RankValues> join(DenseIntElementsAttr groups,
                             const RankValues &ranks, bool coversAll,
                             JoinFn joinGroup);
  FailureOr<Value> sum(Block &reducer, ArrayRef<Value> members);
  FailureOr<Value> apply(Block &reducer, Value x, Value y, Type narrow);
  Value convert(Value value, Type element);
  Value concatenate(ArrayRef<Value> parts, int64_t dim);
  Members cut(Value value, int64_t dim, int64_t parts);
  Value zeros(Type type);
  FailureOr<RankValues> reduce(stablehlo::AllReduceOp reduce,
                               const RankValues &ranks);
  FailureOr<RankValues> reduceScatter(stablehlo::ReduceScatterOp scatter,
                                      const RankValues &ranks);
  FailureOr<RankValues> gather(stablehlo::AllGatherOp gather,
                               const RankValues &ranks);
  FailureOr<RankValues> exchange(stablehlo::AllToAllOp exchange,
                                 const RankValues &ranks);
  FailureOr<RankValues> permute(stablehlo::CollectivePermuteOp permute,
                                const RankValues &ranks);
  FailureOr<RankValues> broadcast(stablehlo::CollectiveBroadcastOp broadcast,
                                  const RankValues &ranks);

  template <typename Op, typename... Args> Op create(Args &&...args) {
    Op made = Op::create(builder, loc, std::forward<Args>(args)...);
    copyPhase(op, made);
    return made;
  }

  OpBuilder &builder;
  Operation *op;
  Location loc;
};

} // namespace

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

Value RankJoiner::convert(Value value, Type element) {
  if (getElementTypeOrSelf(value) == element)
    return value;
  return create<stablehlo::ConvertOp>(typeOf(value).clone(element), value);
}

Value RankJoiner::concatenate(ArrayRef<Value> parts, int64_t dim) {
  if (parts.size() == 1)
    return parts.front();
  return create<stablehlo::ConcatenateOp>(parts, dim);
}

RankJoiner::Members RankJoiner::cut(Value value, int64_t dim, int64_t parts) {
  int64_t size = typeOf(value).getDimSize(dim) / parts;
  Members pieces;
  for (int64_t part = 0; part < parts; ++part) {
    auto piece =
        create<stablehlo::SliceOp>(value, dim, part * size, (part + 1) * size);
    piece->setAttr(plan::kMaterialiseAttr, builder.getUnitAttr());
    pieces.push_back(piece);
  }
  return pieces;
}

Value RankJoiner::zeros(Type type) {
  return create<stablehlo::ConstantOp>(
      cast<ElementsAttr>(builder.getZeroAttr(type)));
}

/// Applies a reducer of scalars elementwise. Elements of the type `narrow`, if
/// it is not null, are F32 instead.
FailureOr<Value> RankJoiner::apply(Block &reducer, Value x, Value y,
                                   Type narrow) {
  Block::iterator end = builder.getInsertionPoint();
  bool isFirst = end == builder.getBlock()->begin();
  Block::iterator last = isFirst ? end : std::prev(end);
  auto results = stablehlo::applyToElements(
      builder, op, reducer, {x, y}, [&](Type element) -> Type {
        return element == narrow ? builder.getF32Type() : element;
      });
  if (failed(results))
    return failure();
  Block::iterator made =
      isFirst ? builder.getBlock()->begin() : std::next(last);
  for (Operation &inner : llvm::make_range(made, end))
    copyPhase(op, &inner);
  return results->front();
}

FailureOr<Value> RankJoiner::sum(Block &reducer, ArrayRef<Value> members) {
  Type element = getElementTypeOrSelf(members.front()), wide = element;
  Type narrow;
  if (auto number = dyn_cast<FloatType>(element);
      number && number.getWidth() < 32) {
    narrow = element;
    wide = builder.getF32Type();
  }
  Value total = convert(members.front(), wide);
  for (Value member : members.drop_front()) {
    FailureOr<Value> next =
        apply(reducer, total, convert(member, wide), narrow);
    if (failed(next))
      return failure();
    total = *next;
  }
  return convert(total, element);
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

FailureOr<RankValues> RankJoiner::join(DenseIntElementsAttr groups,
                                       const RankValues &ranks, bool coversAll,
                                       JoinFn joinGroup) {
  auto ids = llvm::to_vector(groups.getValues<int64_t>());
  int64_t size = groups.getType().getDimSize(1);
  auto numRanks = static_cast<int64_t>(ranks.size());
  RankValues results(numRanks);
  // Groups with identical operands share their results.
  SmallVector<std::pair<Members, Members>> done;
  for (ArrayRef<int64_t> left = ids; !left.empty();
       left = left.drop_front(size)) {
    ArrayRef<int64_t> group = left.take_front(size);
    // -1 pads a short group.
    group = group.take_while([](int64_t id) { return id >= 0; });
    if (llvm::any_of(group, [&](int64_t id) { return id >= numRanks; }))
      return op->emitOpError()
             << "names a device beyond the " << numRanks << " of the mesh";
    if (group.empty())
      continue;
    Members members;
    for (int64_t id : group)
      members.push_back(ranks[id]);
    auto *known = llvm::find_if(
        done, [&](const auto &entry) { return entry.first == members; });
    if (known == done.end()) {
      FailureOr<Members> joined = joinGroup(members);
      if (failed(joined))
        return failure();
      done.push_back({members, std::move(*joined)});
      known = &done.back();
    }
    for (auto [id, value] : llvm::zip_equal(group, known->second))
      results[id] = value;
  }
  if (coversAll && llvm::is_contained(results, Value()))
    return op->emitOpError("has devices of the mesh in none of its groups");
  return results;
}

FailureOr<RankValues> RankJoiner::reduce(stablehlo::AllReduceOp reduce,
                                         const RankValues &ranks) {
  return join(reduce.getReplicaGroups(), ranks, /*coversAll=*/true,
              [&](ArrayRef<Value> members) -> FailureOr<Members> {
                FailureOr<Value> total =
                    sum(reduce.getComputation().front(), members);
                if (failed(total))
                  return failure();
                return Members(members.size(), *total);
              });
}

FailureOr<RankValues>
RankJoiner::reduceScatter(stablehlo::ReduceScatterOp scatter,
                          const RankValues &ranks) {
  return join(scatter.getReplicaGroups(), ranks, /*coversAll=*/true,
              [&](ArrayRef<Value> members) -> FailureOr<Members> {
                FailureOr<Value> total =
                    sum(scatter.getComputation().front(), members);
                if (failed(total))
                  return failure();
                return cut(*total, scatter.getScatterDimension(),
                           static_cast<int64_t>(members.size()));
              });
}

FailureOr<RankValues> RankJoiner::gather(stablehlo::AllGatherOp gather,
                                         const RankValues &ranks) {
  return join(gather.getReplicaGroups(), ranks, /*coversAll=*/true,
              [&](ArrayRef<Value> members) -> FailureOr<Members> {
                return Members(members.size(),
                               concatenate(members, gather.getAllGatherDim()));
              });
}

FailureOr<RankValues> RankJoiner::exchange(stablehlo::AllToAllOp exchange,
                                           const RankValues &ranks) {
  return join(exchange.getReplicaGroups(), ranks, /*coversAll=*/true,
              [&](ArrayRef<Value> members) -> FailureOr<Members> {
                SmallVector<Members> pieces;
                for (Value member : members)
                  pieces.push_back(cut(member, exchange.getSplitDimension(),
                                       static_cast<int64_t>(members.size())));
                Members results;
                for (size_t to = 0; to < members.size(); ++to) {
                  Members received;
                  for (const Members &sent : pieces)
                    received.push_back(sent[to]);
                  results.push_back(
                      concatenate(received, exchange.getConcatDimension()));
                }
                return results;
              });
}

FailureOr<RankValues>
RankJoiner::broadcast(stablehlo::CollectiveBroadcastOp broadcast,
                      const RankValues &ranks) {
  FailureOr<RankValues> results =
      join(broadcast.getReplicaGroups(), ranks, /*coversAll=*/false,
           [&](ArrayRef<Value> members) -> FailureOr<Members> {
             return Members(members.size(), members.front());
           });
  if (failed(results))
    return failure();
  if (llvm::is_contained(*results, Value()))
    llvm::replace(*results, Value(), zeros(ranks.front().getType()));
  return results;
}

FailureOr<RankValues>
RankJoiner::permute(stablehlo::CollectivePermuteOp permute,
                    const RankValues &ranks) {
  auto ids =
      llvm::to_vector(permute.getSourceTargetPairs().getValues<int64_t>());
  auto numRanks = static_cast<int64_t>(ranks.size());
  RankValues results(numRanks);
  for (size_t i = 0; i < ids.size(); i += 2) {
    if (ids[i] >= numRanks || ids[i + 1] >= numRanks)
      return op->emitOpError()
             << "names a device beyond the " << numRanks << " of the mesh";
    results[ids[i + 1]] = ranks[ids[i]];
  }
  if (llvm::is_contained(results, Value()))
    llvm::replace(results, Value(), zeros(ranks.front().getType()));
  return results;
}

FailureOr<RankValues> RankJoiner::joinOperand(const RankValues &ranks) {
  using namespace stablehlo;
  using Result = FailureOr<RankValues>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](AllReduceOp op) { return reduce(op, ranks); })
      .Case([&](ReduceScatterOp op) { return reduceScatter(op, ranks); })
      .Case([&](AllGatherOp op) { return gather(op, ranks); })
      .Case([&](AllToAllOp op) { return exchange(op, ranks); })
      .Case([&](CollectivePermuteOp op) { return permute(op, ranks); })
      .Case([&](CollectiveBroadcastOp op) { return broadcast(op, ranks); });
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<RankValues>>
scalify::joinRanks(OpBuilder &builder, Operation *collective,
                   ArrayRef<RankValues> operands) {
  if (failed(stablehlo::checkNamesDevices(collective)))
    return failure();
  RankJoiner joiner(builder, collective);
  SmallVector<RankValues> results;
  for (const RankValues &ranks : operands) {
    FailureOr<RankValues> joined = joiner.joinOperand(ranks);
    if (failed(joined))
      return failure();
    results.push_back(std::move(*joined));
  }
  return results;
}
