//===- Clusters.cpp - Clustering of ops into kernels ----------------------===//

#include "Clusters.h"
#include "OpCosts.h"
#include "Stacks.h"

#include "scalify/Dialect/Plan/PlanInPlace.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/Reductions.h"

#include <queue>

using namespace mlir;
using namespace scalify;

/// The distance in ops, in a step without phases, beyond which a value's live
/// range counts as long: about two layers of a transformer.
static constexpr int64_t kLongDistance = 300;

bool scalify::isLibraryCall(Operation *op) {
  return isa<plan::MatmulOp, plan::AttendOp, plan::CommunicateOp,
             plan::FactorizeOp, plan::InvokeOp, plan::IterateOp>(op);
}

bool scalify::isSource(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || isLibraryCall(op) ||
      isa<stablehlo::PartitionIdOp, plan::UndefinedOp>(op))
    return true;
  auto constant = dyn_cast<stablehlo::ConstantOp>(op);
  return constant && (!isa<SplatElementsAttr>(constant.getValue()) ||
                      constant->hasAttr(kInMemoryAttr));
}

bool scalify::isRankSum(const Cluster &cluster) {
  return llvm::any_of(cluster.ops, [](Operation *op) {
    return op->hasAttr(stablehlo::kInOrderAttr);
  });
}

bool scalify::isStack(Operation *op) { return op->hasAttr(plan::kStackAttr); }

//===----------------------------------------------------------------------===//
// Membership
//===----------------------------------------------------------------------===//

Cluster *Clusters::create(Operation *root) {
  clusters.push_back(std::make_unique<Cluster>());
  Cluster *cluster = clusters.back().get();
  cluster->id = clusters.size() - 1;
  cluster->isKernel = !isLibraryCall(root) && !isStack(root);
  cluster->isScatter = isa<stablehlo::ScatterOp>(root);
  cluster->full = countOf(root->getResult(0));
  // A row reduction iterates over the rows of its operand.
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

/// True if trailing dimensions of every full output make up one row. A loop
/// over other dimensions has no place for ops computed once per row, such as
/// reductions.
bool Clusters::iteratesOverRows(const Cluster &cluster) const {
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

// Derives the relations of the operands of `op` from that of its result.
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
    if (from == to && plan::broadcastsRows(broadcast))
      return meet(operand, use);
    if (use.relation == Relation::Full && plan::broadcastsRows(broadcast)) {
      int64_t width = to / from;
      if (columns == 0)
        columns = width;
      if (columns == width)
        return meet(operand, {Relation::Row, 1});
      // Constant along several rows: computed once per row.
      if (width % columns == 0)
        return meet(operand, {Relation::Free, double(width) / columns});
    }
    return free(operand, double(to) / from);
  }
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    for (Value input : reduce.getInputs()) {
      bool isRows = use.relation == Relation::Row &&
                    plan::reducesRows(reduce) && countOf(input) == full;
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
    times = 4; // the indices are unknown: assume some repeat
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

// True if the cluster may compute `op`, all of whose uses in it are known.
bool Clusters::mayJoin(Operation *op, Cluster &cluster) {
  if (!cluster.isKernel || op->hasAttr(plan::kMaterialiseAttr) ||
      op->getNumResults() != 1)
    return false;
  if (cluster.ops.size() >= limits.maxOps)
    return false;
  if (op->hasAttr(stablehlo::kInOrderAttr) && !isRankSum(cluster))
    return false;
  // Another task of a pipeline runs at another time or on another stage.
  if (Attribute task = op->getAttr(plan::kTaskAttr);
      task && task != getTask(cluster))
    return false;
  if (isView(op))
    return true;
  Value value = op->getResult(0);
  if (cluster.isScatter) {
    // A scatter is one pass over the updates; its input is copied before.
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
      return plan::reducesRows(reduce) && count == cluster.full &&
             iteratesOverRows(cluster);
    // Every task that needs a small sum computes it. A row sum would have
    // another order there: by elements instead of by lanes.
    bool isOrdered =
        use.relation != Relation::Free || !plan::reducesRows(reduce);
    return isOrdered && count <= 1024 && cluster.full <= 1024;
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

PhaseAttr scalify::getPhaseAttr(const Cluster &cluster) {
  for (Operation *op : cluster.ops)
    if (PhaseAttr phase = scalify::getPhaseAttr(op))
      return phase;
  return {};
}

Attribute scalify::getTask(const Cluster &cluster) {
  for (Operation *op : cluster.ops)
    if (Attribute task = op->getAttr(plan::kTaskAttr))
      return task;
  return {};
}

// True if a value of `from` read by `to` has a long live range: from one phase
// to another, or over several layers of a step without phases.
bool Clusters::hasLongLiveRange(Operation *from, const Cluster &to) const {
  int64_t distance = position.lookup(to.ops.front()) - position.lookup(from);
  PhaseAttr source = scalify::getPhaseAttr(from);
  PhaseAttr target = scalify::getPhaseAttr(to);
  if (source && target && source != target)
    return distance > limits.phaseDistance;
  return distance > kLongDistance && getPhase(from) == Phase::Forward;
}

// True if `op` dequantizes data of another phase for `readers`, all kernels:
// then each of them dequantizes, and no wide copy lives until the last.
bool Clusters::dequantizesForKernels(Operation *op,
                                     ArrayRef<Cluster *> readers) const {
  if (!isa<DequantizeOp>(op))
    return false;
  Value data = op->getOperand(0);
  while (Operation *def = data.getDefiningOp()) {
    if (!isView(def) || def->getNumOperands() != 1)
      break;
    data = def->getOperand(0);
  }
  Operation *maker = data.getDefiningOp();
  return maker && llvm::all_of(readers, [&](Cluster *reader) {
           return hasLongLiveRange(maker, *reader);
         });
}

// Pulls `op` into the kernels that use it; true if none of its uses is left.
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
    // A cast to be saved stays with its producer, so that the narrow data is
    // saved.
    bool waits = isa<QuantizeOp>(op) && hasLongLiveRange(op, *users.front());
    if (waits || !mayJoin(op, *users.front()))
      return false;
    add(users.front(), op);
    return true;
  }
  // Several users: clone a cheap op into each of them.
  unsigned depth = 0;
  for (Operation *user : op->getUsers())
    depth = std::max(depth, copyDepth.lookup(user));
  bool isCheap =
      isView(op) ||
      (!hasOtherUse && dequantizesForKernels(op, users.getArrayRef())) ||
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
    auto call = dyn_cast<plan::InvokeOp>(op);
    if (op->use_empty() && !(call && call.getHasEffects())) {
      op->erase();
      continue;
    }
    if (isLibraryCall(op) || isStack(op)) {
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
// Order
//===----------------------------------------------------------------------===//

SmallVector<Cluster *> Clusters::schedule() {
  llvm::DenseMap<Cluster *, llvm::SmallPtrSet<Cluster *, 8>> after;
  llvm::DenseMap<Cluster *, unsigned> waits;
  llvm::DenseMap<Cluster *, int64_t> key;
  SmallVector<Cluster *> live, starts;
  for (auto &owned : clusters) {
    Cluster *cluster = owned.get();
    if (cluster->ops.empty())
      continue;
    live.push_back(cluster);
    int64_t first = INT64_MAX;
    for (Value output : outputs(*cluster))
      first = std::min(first, position.lookup(output.getDefiningOp()));
    key[cluster] = first;
    SmallVector<Value> read = inputs(*cluster);
    if (read.empty())
      starts.push_back(cluster);
    for (Value input : read)
      if (Operation *def = input.getDefiningOp())
        if (Cluster *source = of(def))
          if (after[source].insert(cluster).second)
            ++waits[cluster];
  }
  // A cluster without inputs, such as the zeros that a scatter adds to, runs
  // just before its first user.
  for (Cluster *start : starts) {
    int64_t reader = INT64_MAX;
    for (Cluster *next : after[start])
      reader = std::min(reader, key[next]);
    if (reader != INT64_MAX)
      key[start] = std::max(key[start], reader);
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
