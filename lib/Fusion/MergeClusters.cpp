//===- MergeClusters.cpp - Which kernels become one -----------------------===//

#include "Clusters.h"
#include "OpCosts.h"

#include "scalify/Dialect/StableHLO/OpKinds.h"

using namespace mlir;
using namespace scalify;

/// Readers of a value that are further apart (in ops) stay apart: one of them
/// would hold its inputs for long.
static constexpr int64_t kReaderDistance = 64;
/// To read fewer elements twice costs nothing.
static constexpr int64_t kFewElements = 64;

static int64_t bytesOf(Value value) {
  return countOf(value) * plan::elementBytes(typeOf(value).getElementType());
}

// Whether `consumer` should wait: merged with a kernel long before it, what it
// makes lies in memory from there on, in place of what it reads; or, where that
// was narrow data, what the data were made of waits for it.
bool Clusters::holdsMore(Cluster *producer, Cluster *consumer) const {
  if (!isFar(producer->ops.front(), *consumer))
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
      freed += bytesOf(input);
    }
  // A result of the step has memory of its own.
  for (Value output : outputs(*consumer))
    if (!llvm::all_of(output.getUsers(), llvm::IsaPred<func::ReturnOp>))
      held += bytesOf(output);
  return held > freed;
}

bool Clusters::sameSpace(const Cluster &a, const Cluster &b) const {
  return a.isKernel && b.isKernel && !a.isScatter && !b.isScatter &&
         a.full == b.full && a.full != 0 &&
         (a.columns == b.columns || a.columns == 0 || b.columns == 0);
}

// A path from one cluster to the other through a third.
bool Clusters::reaches(Cluster *from, Cluster *to) const {
  llvm::SmallPtrSet<Cluster *, 32> seen;
  SmallVector<Cluster *> stack;
  auto visit = [&](Cluster *cluster, bool isFirst) {
    for (Operation *op : cluster->ops)
      for (Operation *user : op->getUsers()) {
        Cluster *next = of(user);
        if (!next || next == cluster || (isFirst && next == to))
          continue;
        if (seen.insert(next).second)
          stack.push_back(next);
      }
  };
  visit(from, true);
  while (!stack.empty()) {
    Cluster *cluster = stack.pop_back_val();
    if (cluster == to)
      return true;
    visit(cluster, false);
  }
  return false;
}

bool Clusters::tryMerge(Cluster *a, Cluster *b) {
  if (a == b || !sameSpace(*a, *b) ||
      a->ops.size() + b->ops.size() > limits.maxOps ||
      getTask(*a) != getTask(*b) || isRankSum(*a) != isRankSum(*b))
    return false;
  // A trial union, to see every value in its new place.
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
      !walksRows(both))
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
  // Values stored in one and read in the other keep their order.
  for (auto [x, y] : {std::pair(a, b), std::pair(b, a)})
    for (Value output : outputs(*x))
      for (Operation *user : output.getUsers())
        if (of(user) == y && uses.lookup(output).relation != Relation::Full &&
            uses.lookup(output).relation != Relation::Row)
          return false;
  if (reaches(a, b) || reaches(b, a))
    return false;
  for (Operation *op : b->ops)
    add(a, op);
  a->columns = both.columns;
  b->ops.clear();
  return true;
}

/// Producers with their consumers, nearest first.
unsigned Clusters::mergeWithConsumers() {
  unsigned merged = 0;
  SmallVector<Operation *> order;
  for (Operation &op : block)
    if (of(&op) && of(&op)->isKernel)
      order.push_back(&op);
  for (Operation *op : llvm::reverse(order))
    for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
      if (Cluster *consumer = of(user);
          consumer && !holdsMore(of(op), consumer))
        merged += tryMerge(of(op), consumer);
  return merged;
}

/// Kernels that read the same value, the latest first.
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

// By tiles of a block's own memory a kernel stores what it makes in two orders;
// what is computed once a row has no place there.
bool Clusters::mayWriteTurned(const Cluster &maker, const Cluster &copy) const {
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

/// Copies that lie otherwise with the kernels that make what they copy.
unsigned Clusters::mergeTurnedCopies() {
  unsigned merged = 0;
  for (auto &copy : clusters) {
    if (copy->ops.empty() || !copy->ops.front()->hasAttr("plan.materialise") ||
        !llvm::all_of(
            copy->ops,
            llvm::IsaPred<stablehlo::TransposeOp, stablehlo::ReshapeOp>))
      continue;
    SmallVector<Value> sources = inputs(*copy);
    Operation *def = sources.size() == 1 ? sources[0].getDefiningOp() : nullptr;
    Cluster *maker = def ? of(def) : nullptr;
    if (!maker || maker == copy.get() || !mayWriteTurned(*maker, *copy))
      continue;
    for (Operation *op : copy->ops)
      add(maker, op);
    copy->ops.clear();
    ++merged;
  }
  return merged;
}

unsigned Clusters::merge() {
  unsigned merged = mergeWithConsumers();
  SmallVector<Value> values(block.getArguments());
  for (Operation &op : block)
    values.append(op.result_begin(), op.result_end());
  for (Value value : values)
    if (countOf(value) >= kFewElements)
      merged += mergeReaders(value);
  if (limits.mergeTurned)
    merged += mergeTurnedCopies();
  return merged;
}
