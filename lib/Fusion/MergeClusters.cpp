//===- MergeClusters.cpp - Merging of kernels -----------------------------===//

#include "Clusters.h"
#include "OpCosts.h"

#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"

using namespace mlir;
using namespace scalify;

/// Kernels that read one value and are further apart than this (in ops) are not
/// merged: the live ranges of one's inputs would become long.
static constexpr int64_t kReaderDistance = 64;
/// Reading fewer elements than this twice costs nothing.
static constexpr int64_t kFewElements = 64;

// True if merging `consumer` into a kernel long before it would increase the
// memory in between: its outputs would live there instead of its inputs, or,
// where an input is narrow data, the wide source of that data.
bool Clusters::wouldIncreaseMemory(Cluster *producer, Cluster *consumer) const {
  if (!hasLongLiveRange(producer->ops.front(), *consumer))
    return false;
  int64_t freed = 0, held = 0;
  for (Value input : inputs(*consumer))
    if (Operation *def = input.getDefiningOp();
        def && of(def) == producer &&
        llvm::all_of(input.getUsers(), [&](Operation *user) {
          return of(user) == producer || of(user) == consumer;
        })) {
      if (isa<QuantizeOp>(def))
        return true;
      freed += countBytes(input);
    }
  // A result of the step has memory of its own.
  for (Value output : outputs(*consumer))
    if (!llvm::all_of(output.getUsers(), llvm::IsaPred<func::ReturnOp>))
      held += countBytes(output);
  return held > freed;
}

bool Clusters::sameSpace(const Cluster &a, const Cluster &b) const {
  return a.isKernel && b.isKernel && !a.isScatter && !b.isScatter &&
         a.full == b.full && a.full != 0 &&
         (a.columns == b.columns || a.columns == 0 || b.columns == 0);
}

// Returns the transitive users of `first` placed before `last`; none if a path
// leads through one of them to `last`.
std::optional<Clusters::ClusterSet> Clusters::followers(Cluster *first,
                                                        Cluster *last) const {
  ClusterSet found;
  SmallVector<Cluster *> stack{first};
  while (!stack.empty()) {
    Cluster *cluster = stack.pop_back_val();
    for (Operation *op : cluster->ops)
      for (Operation *user : op->getUsers()) {
        Cluster *next = of(user);
        if (!next || next == cluster || next->place > last->place)
          continue;
        if (next != last) {
          if (found.insert(next).second)
            stack.push_back(next);
        } else if (cluster != first) {
          return std::nullopt;
        }
      }
  }
  return found;
}

// Gives two clusters to be merged adjacent places, after the producers of both
// and before the followers.
void Clusters::makeAdjacent(Cluster *first, Cluster *last,
                            const ClusterSet &followers) {
  auto rank = [&](Cluster *cluster) {
    return followers.contains(cluster)           ? 2
           : cluster == first || cluster == last ? 1
                                                 : 0;
  };
  int64_t begin = first->place, end = last->place + 1;
  llvm::sort(MutableArrayRef<Cluster *>(places).slice(begin, end - begin),
             [&](Cluster *a, Cluster *b) {
               return std::pair(rank(a), a->place) <
                      std::pair(rank(b), b->place);
             });
  for (int64_t i = begin; i < end; ++i)
    places[i]->place = i;
}

bool Clusters::tryMerge(Cluster *a, Cluster *b) {
  if (a == b || !sameSpace(*a, *b) ||
      a->ops.size() + b->ops.size() > limits.maxOps ||
      getTask(*a) != getTask(*b) || isRankSum(*a) != isRankSum(*b))
    return false;
  // Analyses a trial union, in which every value has its new relation.
  Cluster both = *a;
  both.columns = std::max(a->columns, b->columns);
  for (Operation *op : b->ops)
    both.ops.insert(op);
  if (inputs(both).size() + outputs(both).size() > limits.maxBuffers)
    return false;
  Uses uses;
  if (!analyse(both, uses))
    return false;
  if (llvm::any_of(both.ops, llvm::IsaPred<stablehlo::ReduceOp>) &&
      !iteratesOverRows(both))
    return false;
  for (Operation *op : both.ops) {
    auto it = uses.find(op->getResult(0));
    if (it == uses.end() || isView(op))
      continue;
    Use use = it->second;
    if (use.relation == Relation::Free &&
        (isa<stablehlo::ReduceOp>(op) || costOf(op) * (use.times - 1) > 4))
      return false;
    if (isa<stablehlo::ReduceOp>(op) && use.relation == Relation::Scalar &&
        both.full > 1024)
      return false;
  }
  // Values that one stores and the other reads must keep their order.
  for (auto [x, y] : {std::pair(a, b), std::pair(b, a)})
    for (Value output : outputs(*x))
      for (Operation *user : output.getUsers())
        if (of(user) == y && uses.lookup(output).relation != Relation::Full &&
            uses.lookup(output).relation != Relation::Row)
          return false;
  auto [first, last] = a->place < b->place ? std::pair(a, b) : std::pair(b, a);
  std::optional<ClusterSet> between = followers(first, last);
  if (!between)
    return false;
  makeAdjacent(first, last, *between);
  for (Operation *op : b->ops)
    add(a, op);
  a->columns = both.columns;
  b->ops.clear();
  return true;
}

/// Merges producers with their consumers, the last producers first.
unsigned Clusters::mergeWithConsumers() {
  unsigned merged = 0;
  SmallVector<Operation *> order;
  for (Operation &op : block)
    if (of(&op) && of(&op)->isKernel)
      order.push_back(&op);
  for (Operation *op : llvm::reverse(order))
    for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
      if (Cluster *consumer = of(user);
          consumer && !wouldIncreaseMemory(of(op), consumer))
        merged += tryMerge(of(op), consumer);
  return merged;
}

/// Merges kernels that read the same value, the latest first.
unsigned Clusters::mergeReaders(Value value) {
  unsigned merged = 0;
  SmallVector<Cluster *> readers;
  for (Operation *user : value.getUsers()) {
    Cluster *cluster = of(user);
    if (cluster && cluster->isKernel && !llvm::is_contained(readers, cluster))
      readers.push_back(cluster);
  }
  llvm::sort(readers, [&](Cluster *a, Cluster *b) { return a->id > b->id; });
  for (size_t i = 0; i + 1 < readers.size(); ++i) {
    if (readers[i]->ops.empty())
      continue;
    int64_t distance = position.lookup(readers[i + 1]->ops.front()) -
                       position.lookup(readers[i]->ops.front());
    if (std::abs(distance) <= kReaderDistance)
      merged += tryMerge(readers[i + 1], readers[i]);
  }
  return merged;
}

// True if `maker` may also store its result transposed, by tiles in the GPU
// block's shared memory; such a kernel has no place for ops computed once per
// row.
bool Clusters::mayWriteTransposed(const Cluster &maker,
                                  const Cluster &copy) const {
  if (!maker.isKernel || maker.isScatter || maker.full != copy.full ||
      getTask(maker) != getTask(copy) ||
      maker.ops.size() + copy.ops.size() > limits.maxOps)
    return false;
  auto isByElement = [](Operation *op) {
    using namespace stablehlo;
    return isElementwiseOp(op) ||
           isa<BroadcastInDimOp, stablehlo::ConstantOp, DequantizeOp, IotaOp,
               QuantizeOp, ReshapeOp>(op);
  };
  return llvm::all_of(maker.ops, isByElement) &&
         llvm::all_of(outputs(maker), [&](Value output) {
           return countOf(output) == maker.full;
         });
}

/// Merges transposed copies into the kernels that compute their sources.
unsigned Clusters::mergeTransposedCopies() {
  unsigned merged = 0;
  for (auto &copy : clusters) {
    if (copy->ops.empty() ||
        !copy->ops.front()->hasAttr(plan::kMaterialiseAttr) ||
        !llvm::all_of(
            copy->ops,
            llvm::IsaPred<stablehlo::TransposeOp, stablehlo::ReshapeOp>))
      continue;
    SmallVector<Value> sources = inputs(*copy);
    Operation *def = sources.size() == 1 ? sources[0].getDefiningOp() : nullptr;
    Cluster *maker = def ? of(def) : nullptr;
    if (!maker || maker == copy.get() || !mayWriteTransposed(*maker, *copy))
      continue;
    for (Operation *op : copy->ops)
      add(maker, op);
    copy->ops.clear();
    ++merged;
  }
  return merged;
}

unsigned Clusters::merge() {
  places = schedule();
  for (auto [place, cluster] : llvm::enumerate(places))
    cluster->place = static_cast<int64_t>(place);
  unsigned merged = mergeWithConsumers();
  SmallVector<Value> values(block.getArguments());
  for (Operation &op : block)
    values.append(op.result_begin(), op.result_end());
  for (Value value : values)
    if (countOf(value) >= kFewElements)
      merged += mergeReaders(value);
  if (limits.mergeTransposed)
    merged += mergeTransposedCopies();
  return merged;
}
