//===- Clusters.cpp - Which ops share a kernel ----------------------------===//

#include "Clusters.h"

#include "scalify/Fusion/OpKinds.h"

#include "llvm/ADT/TypeSwitch.h"

#include <queue>

using namespace mlir;
using namespace scalify;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t countOf(Value value) { return typeOf(value).getNumElements(); }

static int64_t bytesOf(Value value) {
  return countOf(value) * plan::elementBytes(typeOf(value).getElementType());
}

bool scalify::isSource(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || isa<plan::MatmulOp>(op))
    return true;
  auto constant = dyn_cast<stablehlo::ConstantOp>(op);
  return constant && (!isa<SplatElementsAttr>(constant.getValue()) ||
                      constant->hasAttr(kInMemoryAttr));
}

Value scalify::stripReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<stablehlo::ReshapeOp>())
    value = reshape.getOperand();
  return value;
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

// Instructions for one element, roughly.
static double costOf(Operation *op) {
  using namespace stablehlo;
  if (isa<ExpOp, Expm1Op, LogOp, Log1pOp, TanhOp, LogisticOp, PowOp, SineOp,
          CosineOp, TanOp, Atan2Op, CbrtOp, RemOp>(op))
    return 20;
  if (isa<RandomBitsOp>(op))
    return 100;
  if (isa<DivOp, SqrtOp, RsqrtOp, QuantizeOp>(op))
    return 8;
  if (isa<DequantizeOp, ReducePrecisionOp, GatherOp>(op))
    return 4;
  if (isa<stablehlo::ConstantOp, BroadcastInDimOp, ReshapeOp, TransposeOp,
          SliceOp, IotaOp, ReverseOp>(op))
    return 0;
  return 1;
}

// Ops that only say where an element comes from: no memory is worth them.
static bool isView(Operation *op) {
  using namespace stablehlo;
  if (op->hasAttr("plan.materialise"))
    return false;
  return isa<BroadcastInDimOp, ReshapeOp, TransposeOp, SliceOp, ReverseOp,
             IotaOp, stablehlo::ConstantOp>(op);
}

// Operands that are read as whole tensors of memory.
static unsigned largeOperands(Operation *op) {
  llvm::SmallPtrSet<Value, 4> seen;
  for (Value operand : op->getOperands()) {
    Operation *def = operand.getDefiningOp();
    if (def && isView(def) && def->getNumOperands() == 1 &&
        countOf(def->getOperand(0)) * 8 <= countOf(operand))
      continue;
    if (def && def->getNumOperands() == 0 && !isSource(operand))
      continue;
    if (countOf(operand) > 1)
      seen.insert(operand);
  }
  return seen.size();
}

//===----------------------------------------------------------------------===//
// Membership
//===----------------------------------------------------------------------===//

Cluster *Clusters::create(Operation *root) {
  clusters.push_back(std::make_unique<Cluster>());
  Cluster *cluster = clusters.back().get();
  cluster->id = clusters.size() - 1;
  cluster->isKernel = !isa<plan::MatmulOp>(root);
  cluster->isScatter = isa<stablehlo::ScatterOp>(root);
  cluster->full = countOf(root->getResult(0));
  // A sum of rows walks the rows.
  if (auto reduce = dyn_cast<stablehlo::ReduceOp>(root)) {
    int64_t rank = typeOf(reduce.getInputs()[0]).getRank();
    SmallVector<int64_t> dims(reduce.getDimensions());
    llvm::sort(dims);
    bool isTrailing = !dims.empty() &&
                      dims.front() == rank - int64_t(dims.size()) &&
                      cluster->full > 0;
    int64_t count = countOf(reduce.getInputs()[0]);
    if (isTrailing && count > cluster->full) {
      cluster->columns = count / cluster->full;
      cluster->full = count;
    }
  }
  add(cluster, root);
  return cluster;
}

/// Whether the last dimensions of every full output make up one row. A loop
/// over other ones has no place for what is computed once a row, as a reduction
/// is.
bool Clusters::walksRows(const Cluster &cluster) const {
  return llvm::all_of(outputs(cluster), [&](Value output) {
    if (cluster.columns == 0 || countOf(output) != cluster.full)
      return true;
    int64_t width = 1;
    for (int64_t extent : llvm::reverse(typeOf(output).getShape())) {
      if (width >= cluster.columns)
        break;
      width *= extent;
    }
    return width == cluster.columns;
  });
}

void Clusters::add(Cluster *cluster, Operation *op) {
  cluster->ops.insert(op);
  clusterOf[op] = cluster;
}

SmallVector<Value> Clusters::inputs(const Cluster &cluster) const {
  llvm::SetVector<Value> values;
  for (Operation *op : cluster.ops)
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (!def || !cluster.ops.contains(def))
        values.insert(operand);
    }
  return values.takeVector();
}

SmallVector<Value> Clusters::outputs(const Cluster &cluster) const {
  SmallVector<Value> values;
  for (Operation *op : cluster.ops)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            return !cluster.ops.contains(user);
          }))
        values.push_back(result);
  return values;
}

//===----------------------------------------------------------------------===//
// Relations
//===----------------------------------------------------------------------===//

static bool isTrailingReduce(stablehlo::ReduceOp op) {
  SmallVector<int64_t> dims(op.getDimensions());
  llvm::sort(dims);
  int64_t rank = typeOf(op.getInputs()[0]).getRank();
  return !dims.empty() && dims.front() == rank - int64_t(dims.size());
}

// A broadcast along new trailing dimensions: one value for each row.
static bool isRowBroadcast(stablehlo::BroadcastInDimOp op) {
  ArrayRef<int64_t> dims = op.getBroadcastDimensions();
  RankedTensorType from = typeOf(op.getOperand()), to = typeOf(op.getResult());
  int64_t next = 0;
  for (auto [i, d] : llvm::enumerate(dims)) {
    if (from.getDimSize(i) == 1)
      continue;
    while (next < d && to.getDimSize(next) == 1)
      ++next;
    if (d != next || from.getDimSize(i) != to.getDimSize(d))
      return false;
    ++next;
  }
  return true;
}

// How the operands of `op` are met, given how its result is.
static void usesOfOperands(Operation *op, Use use, int64_t full,
                           int64_t &columns,
                           llvm::function_ref<void(Value, Use)> meet) {
  auto free = [&](Value operand, double times) {
    if (countOf(operand) == 1)
      meet(operand, {Relation::Scalar, 1});
    else
      meet(operand, {Relation::Free, times * use.times});
  };
  using namespace stablehlo;
  if (auto broadcast = dyn_cast<BroadcastInDimOp>(op)) {
    Value operand = broadcast.getOperand();
    int64_t from = countOf(operand), to = countOf(broadcast.getResult());
    if (from <= 1)
      return meet(operand, {Relation::Scalar, 1});
    if (from == to && isRowBroadcast(broadcast))
      return meet(operand, use);
    if (use.relation == Relation::Full && isRowBroadcast(broadcast)) {
      int64_t width = to / from;
      if (columns == 0)
        columns = width;
      if (columns == width)
        return meet(operand, {Relation::Row, 1});
      // Constant along more than a row: computed once a row.
      if (width % columns == 0)
        return meet(operand, {Relation::Free, double(width / columns)});
    }
    return free(operand, double(to) / from);
  }
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    for (Value input : reduce.getInputs()) {
      bool isRows = use.relation == Relation::Row && isTrailingReduce(reduce) &&
                    countOf(input) == full;
      if (isRows)
        meet(input, {Relation::Full, 1});
      else
        free(input, 1);
    }
    for (Value init : reduce.getInitValues())
      meet(init, {Relation::Scalar, 1});
    return;
  }
  if (isElementwiseOp(op) || isa<ReshapeOp, QuantizeOp, DequantizeOp>(op)) {
    for (Value operand : op->getOperands()) {
      if (countOf(operand) == countOf(op->getResult(0)))
        meet(operand, use);
      else
        free(operand, 1);
    }
    return;
  }
  double times = 1;
  if (isa<GatherOp>(op))
    times = 4; // places are not known: assume some are met often
  for (Value operand : op->getOperands())
    free(operand, times);
}

bool Clusters::analyse(Cluster &cluster, Uses &uses) const {
  auto meet = [&](Value value, Use use) {
    auto [it, isNew] = uses.try_emplace(value, use);
    if (isNew)
      return;
    Use &old = it->second;
    if (old.relation != use.relation) {
      old.times = (old.relation == Relation::Free ? old.times : 1) +
                  (use.relation == Relation::Free ? use.times : 1);
      old.relation = Relation::Free;
    } else if (old.relation == Relation::Free) {
      old.times += use.times;
    }
  };
  for (Value output : outputs(cluster)) {
    int64_t count = countOf(output);
    if (count == cluster.full)
      meet(output, {Relation::Full, 1});
    else if (cluster.columns != 0 && count * cluster.columns == cluster.full)
      meet(output, {Relation::Row, 1});
    else
      return false;
  }
  SmallVector<Operation *> order(cluster.ops.begin(), cluster.ops.end());
  llvm::sort(order,
             [&](Operation *a, Operation *b) { return b->isBeforeInBlock(a); });
  for (Operation *op : order) {
    auto it = uses.find(op->getResult(0));
    Use use = it == uses.end() ? Use{Relation::Full, 1} : it->second;
    usesOfOperands(op, use, cluster.full, cluster.columns, meet);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Pulling
//===----------------------------------------------------------------------===//

// May `op`, all of whose uses in the cluster are known, be computed in it?
bool Clusters::mayJoin(Operation *op, Cluster &cluster) {
  if (!cluster.isKernel || op->hasAttr("plan.materialise") ||
      op->getNumResults() != 1)
    return false;
  if (cluster.ops.size() >= limits.maxOps)
    return false;
  if (isView(op))
    return true;
  Value value = op->getResult(0);
  if (cluster.isScatter) {
    // One pass over the updates; the input is copied before.
    auto scatter = cast<stablehlo::ScatterOp>(cluster.ops.front());
    return !isa<stablehlo::ReduceOp>(op) && scatter.getInputs()[0] != value &&
           costOf(op) <= 8;
  }
  Uses uses;
  if (!analyse(cluster, uses))
    return false;
  auto it = uses.find(value);
  if (it == uses.end())
    return false;
  Use use = it->second;
  if (auto reduce = dyn_cast<stablehlo::ReduceOp>(op)) {
    int64_t count = countOf(reduce.getInputs()[0]);
    if (use.relation == Relation::Row)
      return isTrailingReduce(reduce) && count == cluster.full &&
             walksRows(cluster);
    // Small sums are done by every task that needs them.
    return count <= 1024 && cluster.full <= 1024;
  }
  switch (use.relation) {
  case Relation::Full:
  case Relation::Row:
    return true;
  case Relation::Scalar:
    return isElementwiseOp(op);
  case Relation::Free:
    return costOf(op) * (use.times - 1) <= 4;
  }
  return false;
}

// Whether what `from` makes would be kept for long if `to` read it: from the
// forward to the backward, or over several layers of a step without phases.
bool Clusters::isFar(Operation *from, Operation *to) const {
  int64_t distance = position.lookup(to) - position.lookup(from);
  auto source = from->getAttrOfType<StringAttr>(kPhaseAttr);
  auto target = to->getAttrOfType<StringAttr>(kPhaseAttr);
  if (source && target && source != target)
    return source == "forward" && distance > limits.phaseDistance;
  return distance > 300 && (!source || source == "forward");
}

// Whether `consumer` should wait: merged with a kernel long before it, what it
// makes lies in memory from there on, in place of what it reads.
bool Clusters::holdsMore(Cluster *producer, Cluster *consumer) const {
  if (!isFar(producer->ops.front(), consumer->ops.front()))
    return false;
  int64_t freed = 0, held = 0;
  for (Value input : inputs(*consumer))
    if (Operation *def = input.getDefiningOp();
        def && of(def) == producer &&
        llvm::all_of(input.getUsers(), [&](Operation *user) {
          return of(user) == producer || of(user) == consumer;
        }))
      freed += bytesOf(input);
  // A result of the step has memory of its own.
  for (Value output : outputs(*consumer))
    if (!llvm::all_of(output.getUsers(), llvm::IsaPred<func::ReturnOp>))
      held += bytesOf(output);
  return held > freed;
}

// True if no use is left outside of other kernels.
bool Clusters::pullInto(Operation *op) {
  llvm::SetVector<Cluster *> users;
  bool hasOtherUse = false;
  for (Operation *user : op->getUsers()) {
    Cluster *cluster = of(user);
    if (!cluster || !cluster->isKernel)
      hasOtherUse = true;
    else
      users.insert(cluster);
    if (auto scatter = dyn_cast<stablehlo::ScatterOp>(user))
      if (llvm::is_contained(scatter.getInputs(), op->getResult(0)))
        hasOtherUse = true;
  }
  if (op->getNumResults() != 1 || isa<stablehlo::ScatterOp>(op))
    return false;
  bool isKept = isa<QuantizeOp>(op) && (hasOtherUse || users.size() > 1);
  if (users.size() == 1 && !hasOtherUse) {
    // Narrow data is what is kept: it stays where it is made.
    bool waits = isa<QuantizeOp>(op) && isFar(op, users.front()->ops.front());
    if (waits || !mayJoin(op, *users.front()))
      return false;
    add(users.front(), op);
    return true;
  }
  // Several users: each computes a cheap op itself.
  unsigned depth = 0;
  for (Operation *user : op->getUsers())
    depth = std::max(depth, copyDepth.lookup(user));
  bool isCheap =
      isView(op) ||
      (!isKept && !isa<stablehlo::ReduceOp, stablehlo::GatherOp>(op) &&
       costOf(op) <= 2 && largeOperands(op) <= 1 && depth < 6 &&
       countOf(op->getResult(0)) > 1);
  if (!isCheap)
    return false;
  bool all = !hasOtherUse;
  for (Cluster *cluster : users) {
    if (!mayJoin(op, *cluster)) {
      all = false;
      continue;
    }
    OpBuilder b(op);
    b.setInsertionPointAfter(op);
    Operation *copy = b.clone(*op);
    position[copy] = position.lookup(op);
    copyDepth[copy] = depth + !isView(op);
    op->replaceUsesWithIf(copy, [&](OpOperand &use) {
      auto scatter = dyn_cast<stablehlo::ScatterOp>(use.getOwner());
      bool isInput = scatter && use.getOperandNumber() == 0;
      return of(use.getOwner()) == cluster && !isInput;
    });
    add(cluster, copy);
  }
  return all;
}

void Clusters::numberOps() {
  int64_t next = 0;
  for (Operation &op : block)
    position[&op] = next++;
}

void Clusters::pull() {
  numberOps();
  SmallVector<Operation *> order;
  for (Operation &op : block.without_terminator())
    order.push_back(&op);
  for (Operation *op : llvm::reverse(order)) {
    if (op->use_empty()) {
      op->erase();
      continue;
    }
    if (isa<plan::MatmulOp>(op)) {
      create(op);
      continue;
    }
    if (isSource(op->getResult(0)))
      continue;
    if (!pullInto(op))
      create(op);
    else if (op->use_empty())
      op->erase();
  }
}

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

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
      a->ops.size() + b->ops.size() > limits.maxOps)
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

unsigned Clusters::merge() {
  unsigned merged = 0;
  // Producers with their consumers, nearest first.
  SmallVector<Operation *> order;
  for (Operation &op : block)
    if (of(&op) && of(&op)->isKernel)
      order.push_back(&op);
  for (Operation *op : llvm::reverse(order)) {
    for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
      if (Cluster *consumer = of(user);
          consumer && !holdsMore(of(op), consumer))
        merged += tryMerge(of(op), consumer);
  }
  // Readers of the same value.
  SmallVector<Value> values(block.getArguments());
  for (Operation &op : block)
    values.append(op.result_begin(), op.result_end());
  for (Value value : values) {
    if (countOf(value) < 64)
      continue;
    SmallVector<Cluster *> readers;
    for (Operation *user : value.getUsers()) {
      Cluster *cluster = of(user);
      if (cluster && cluster->isKernel && !llvm::is_contained(readers, cluster))
        readers.push_back(cluster);
    }
    llvm::sort(readers, [&](Cluster *a, Cluster *b) { return a->id > b->id; });
    for (size_t i = 0; i + 1 < readers.size(); ++i) {
      // Far apart in the program one of them would hold its inputs for long.
      int64_t distance = position.lookup(readers[i + 1]->ops.front()) -
                         position.lookup(readers[i]->ops.front());
      if (readers[i]->ops.empty() || std::abs(distance) > 64)
        continue;
      if (tryMerge(readers[i + 1], readers[i]))
        ++merged;
    }
  }
  return merged;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

SmallVector<Cluster *> Clusters::schedule() {
  llvm::DenseMap<Cluster *, llvm::SmallPtrSet<Cluster *, 8>> after;
  llvm::DenseMap<Cluster *, unsigned> waits;
  llvm::DenseMap<Cluster *, int64_t> key;
  SmallVector<Cluster *> live;
  for (auto &owned : clusters) {
    Cluster *cluster = owned.get();
    if (cluster->ops.empty())
      continue;
    live.push_back(cluster);
    int64_t first = INT64_MAX;
    for (Value output : outputs(*cluster))
      first = std::min(first, position.lookup(output.getDefiningOp()));
    key[cluster] = first;
    for (Value input : inputs(*cluster))
      if (Operation *def = input.getDefiningOp())
        if (Cluster *source = of(def))
          if (after[source].insert(cluster).second)
            ++waits[cluster];
  }
  using Entry = std::pair<int64_t, Cluster *>;
  auto later = [](const Entry &a, const Entry &b) {
    return a.first != b.first ? a.first > b.first : a.second->id < b.second->id;
  };
  std::priority_queue<Entry, std::vector<Entry>, decltype(later)> ready(later);
  for (Cluster *cluster : live)
    if (waits.lookup(cluster) == 0)
      ready.push({key[cluster], cluster});
  SmallVector<Cluster *> order;
  while (!ready.empty()) {
    Cluster *cluster = ready.top().second;
    ready.pop();
    order.push_back(cluster);
    for (Cluster *next : after[cluster])
      if (--waits[next] == 0)
        ready.push({key[next], next});
  }
  assert(order.size() == live.size() && "clusters form a cycle");
  return order;
}
