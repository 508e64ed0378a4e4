//===- GatherAgain.cpp - Rematerialisation of all-gathers -----------------===//
//
// Under ZeRO-3 a layer's weights are gathered for the forward, and stay in
// memory until the backward has read them; so do the activations that sequence
// parallelism gathers. Gathering them again frees the memory in between, at the
// cost of sending the same bytes once more. To meet a limit on memory, the pass
// evicts at the peak the gather with the furthest next use.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Fusion/Passes.h"
#include "scalify/Precision/Recompute.h"

#include "mlir/IR/IRMapping.h"

namespace scalify {
#define GEN_PASS_DEF_GATHERAGAIN
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using plan::CommunicateOp;

/// The distance in ops between two reads beyond which eviction pays: gathers
/// are issued one ahead, so the result is in memory for the previous read as
/// well.
static constexpr int64_t kNear = 16;

namespace {
/// An all-gather and its reads.
struct Gathered {
  CommunicateOp op;
  int64_t bytes = 0;
  SmallVector<std::pair<int64_t, OpOperand *>> reads; // by place in the block
  llvm::SmallDenseSet<size_t> cuts; // reads before which it is gathered again

  /// Calls `visit(from, to)` for each live range, as places in the block.
  template <typename Visit> void forEachLiveRange(Visit visit) const {
    int64_t from = reads.front().first;
    for (size_t i = 0; i < reads.size(); ++i)
      if (i + 1 == reads.size() || cuts.contains(i + 1)) {
        visit(from, reads[i].first);
        if (i + 1 < reads.size())
          from = reads[i + 1].first;
      }
  }
};

struct GatherAgainPass : scalify::impl::GatherAgainBase<GatherAgainPass> {
  using GatherAgainBase::GatherAgainBase;
  void runOnOperation() override;

private:
  void run(Block &block);
  void findReads(Value value, Gathered &gathered);
  void findGathers(Block &block);
  std::pair<int64_t, int64_t> findPeak() const;
  bool evictAt(int64_t place);
  void write(Gathered &gathered);

  llvm::DenseMap<Operation *, int64_t> places;
  SmallVector<Gathered> gathers;
};
} // namespace

/// True for ops that only move or cast the elements of one value: these are
/// rematerialised with the gather.
static bool passesOn(Operation *op) {
  return isa<stablehlo::ReshapeOp, stablehlo::TransposeOp, stablehlo::SliceOp,
             stablehlo::ConvertOp, stablehlo::BroadcastInDimOp, QuantizeOp,
             DequantizeOp>(op);
}

void GatherAgainPass::findReads(Value value, Gathered &gathered) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (passesOn(user) && use.getOperandNumber() == 0)
      findReads(user->getResult(0), gathered);
    else
      gathered.reads.push_back({places.lookup(user), &use});
  }
}

void GatherAgainPass::findGathers(Block &block) {
  for (Operation &op : block)
    places[&op] = static_cast<int64_t>(places.size());
  for (auto op : block.getOps<CommunicateOp>()) {
    if (op.getKind() != plan::CollectiveKind::AllGather)
      continue;
    Gathered gathered;
    gathered.op = op;
    // The source stays in memory.
    gathered.bytes =
        countBytes(op->getResult(0)) - countBytes(op->getOperand(0));
    findReads(op->getResult(0), gathered);
    llvm::sort(gathered.reads, [](const auto &a, const auto &b) {
      return std::pair(a.first, a.second->getOperandNumber()) <
             std::pair(b.first, b.second->getOperandNumber());
    });
    if (!gathered.reads.empty())
      gathers.push_back(std::move(gathered));
  }
}

/// Returns the peak of the bytes that gathers add to memory, and its place.
std::pair<int64_t, int64_t> GatherAgainPass::findPeak() const {
  std::map<int64_t, int64_t> change;
  for (const Gathered &gathered : gathers)
    gathered.forEachLiveRange([&](int64_t from, int64_t to) {
      change[from] += gathered.bytes;
      change[to + 1] -= gathered.bytes;
    });
  int64_t now = 0;
  std::pair<int64_t, int64_t> most = {0, 0};
  for (auto [place, bytes] : change) {
    now += bytes;
    if (now > most.first)
      most = {now, place};
  }
  return most;
}

/// Evicts the live gather with the furthest next use (Belady 1966); false if
/// all next uses are near.
bool GatherAgainPass::evictAt(int64_t place) {
  Gathered *longest = nullptr;
  size_t cut = 0;
  int64_t most = kNear;
  for (Gathered &gathered : gathers)
    for (size_t i = 1; i < gathered.reads.size(); ++i) {
      int64_t from = gathered.reads[i - 1].first, to = gathered.reads[i].first;
      if (from >= place || to <= place || gathered.cuts.contains(i) ||
          to - from <= most)
        continue;
      longest = &gathered;
      cut = i;
      most = to - from;
    }
  if (longest)
    longest->cuts.insert(cut);
  return longest;
}

/// Rematerialises the gather, and the ops that move or cast its result, for the
/// reads after each cut.
void GatherAgainPass::write(Gathered &gathered) {
  IRMapping map;
  Operation *first = nullptr;
  int64_t number = 0;
  std::function<Value(Value)> remake = [&](Value value) -> Value {
    if (Value made = map.lookupOrNull(value))
      return made;
    Operation *op = value.getDefiningOp();
    if (op != gathered.op)
      remake(op->getOperand(0));
    OpBuilder builder(first);
    Operation *made = builder.clone(*op, map);
    copyPhase(first, made);
    // Keeps CSE from merging it with the first gather.
    if (op == gathered.op)
      made->setAttr(plan::kGatheredAgainAttr,
                    builder.getI64IntegerAttr(number));
    if (auto cast = dyn_cast<QuantizeOp>(made); cast && cast.getCastAttr())
      made->setAttr(kUncountedAttr, builder.getUnitAttr());
    return made->getResult(0);
  };
  for (size_t i = 0; i < gathered.reads.size(); ++i) {
    OpOperand *read = gathered.reads[i].second;
    if (gathered.cuts.contains(i)) {
      map.clear();
      first = read->getOwner();
      ++number;
    }
    if (first)
      read->set(remake(read->get()));
  }
  numGathered += number;
}

void GatherAgainPass::run(Block &block) {
  findGathers(block);
  std::pair<int64_t, int64_t> peak = findPeak();
  if (peak.first == 0)
    return;
  Builder builder(&getContext());
  getOperation()->setAttr(plan::kGatheredBytesAttr,
                          builder.getI64IntegerAttr(peak.first));
  if (mostBytes < 0)
    return;
  while (peak.first > mostBytes && evictAt(peak.second))
    peak = findPeak();
  for (Gathered &gathered : gathers)
    if (!gathered.cuts.empty())
      write(gathered);
  // Erase ops whose only users were reads after cuts.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (passesOn(&op) && op.use_empty())
      op.erase();
  countFirstCasts(block);
}

void GatherAgainPass::runOnOperation() {
  auto main = getOperation().lookupSymbol<func::FuncOp>("main");
  if (main && !main.isExternal())
    run(main.getBody().front());
}
