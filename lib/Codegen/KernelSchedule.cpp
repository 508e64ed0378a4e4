//===- KernelSchedule.cpp - The loop nest of a kernel ---------------------===//
//
// The iteration space is the shape of the outputs, split finely enough that
// every reshape in the body falls on a loop. A trial emission records the
// accesses. Neighbouring loops that no access distinguishes are merged, and the
// innermost loop is split where a concatenation or a pad crosses from part to
// part. The innermost loop is vectorised; the outermost one runs over the
// task's rows.
//
// Outputs with fewer elements than the largest (sums of rows, in a kernel that
// also writes the rows) are stored once per row.
//
//===----------------------------------------------------------------------===//

#include "KernelSchedule.h"

#include "EmitTiles.h"
#include "KernelEmitter.h"

#include "scalify/Dialect/Plan/PlanInPlace.h"
#include "scalify/Dialect/Plan/PlanTiles.h"
#include "scalify/Dialect/StableHLO/Reductions.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

// Elements per task: enough to hide its start-up, few enough to balance.
static constexpr int64_t kTaskElements = 16384;
static constexpr int64_t kMinRows = 64;
// Threads per block on a GPU: four warps hide the latency of a row's loads.
static constexpr int64_t kMaxThreads = 256, kWarp = 32;

namespace {
struct Space {
  SmallVector<int64_t> extents;
  size_t rowRank = 0;    // leading loops over rows, if there are rows
  bool hasSmall = false; // there are small outputs, stored once a row
  bool hasRows = false;  // rows are read as a whole before they are written
  bool hasLanes = true;  // innermost loop runs on vectors
  int64_t lanes = 1;
  int64_t tiles = 1;         // that rows must not cross
  SmallVector<int64_t> cuts; // where the innermost loop is split

  int64_t size() const {
    int64_t n = 1;
    for (int64_t e : extents)
      n *= e;
    return n;
  }
};
} // namespace

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

//===----------------------------------------------------------------------===//
// Choice of the space
//===----------------------------------------------------------------------===//

// Adds the row ends of `shape` if each divides, or is a multiple of, all
// others.
static void addBoundaries(SmallVectorImpl<int64_t> &boundaries,
                          ArrayRef<int64_t> shape, int64_t factor) {
  SmallVector<int64_t> fresh;
  int64_t product = factor;
  for (int64_t extent : llvm::reverse(shape)) {
    product *= extent;
    fresh.push_back(product);
  }
  for (int64_t q : fresh)
    for (int64_t p : boundaries)
      if (q == 0 || p == 0 || (p % q != 0 && q % p != 0))
        return;
  for (int64_t q : fresh)
    if (!llvm::is_contained(boundaries, q))
      boundaries.push_back(q);
}

static FailureOr<Space> chooseSpace(plan::KernelOp kernel, Machine machine) {
  Block &body = kernel.getBody().front();
  Operation *yield = body.getTerminator();
  int64_t large = 0, small = INT64_MAX;
  for (Value output : yield->getOperands()) {
    large = std::max(large, tensorType(output).getNumElements());
    small = std::min(small, tensorType(output).getNumElements());
  }
  for (Value output : yield->getOperands()) {
    int64_t n = tensorType(output).getNumElements();
    if ((n != large && n != small) || small == 0 || large % small != 0)
      return kernel.emitOpError("has outputs whose sizes share no rows");
  }
  Space space;
  space.lanes = KernelEmitter::lanesOf(kernel, machine);
  space.hasSmall = small != large;
  SmallVector<int64_t> boundaries{large, 1};
  if (std::optional<plan::Tiling> tiling = plan::tilingOf(kernel)) {
    space.tiles = tiling->tiles;
    addBoundaries(boundaries, {large / tiling->tiles}, 1);
  }
  int64_t rowLength =
      space.hasSmall ? large / small : plan::ElementOrder(kernel).rowLength();
  space.hasRows = rowLength > 0;
  if (space.hasRows)
    addBoundaries(boundaries, {rowLength}, 1);
  for (Value output : yield->getOperands()) {
    int64_t n = tensorType(output).getNumElements();
    addBoundaries(boundaries, tensorType(output).getShape(), large / n);
  }
  for (Operation &op : body.without_terminator())
    for (Value value : op.getOperands())
      if (tensorType(value).getNumElements() == large &&
          !isa<stablehlo::TransposeOp>(op))
        addBoundaries(boundaries, tensorType(value).getShape(), 1);
  llvm::sort(boundaries, std::greater<int64_t>());
  for (size_t i = 0; i + 1 < boundaries.size(); ++i) {
    if (boundaries[i] == boundaries[i + 1])
      continue;
    space.extents.push_back(boundaries[i] / boundaries[i + 1]);
    if (space.hasRows && boundaries[i + 1] >= rowLength)
      space.rowRank = space.extents.size();
  }
  // Sums along the innermost dimension are computed one result at a time, other
  // sums in lanes.
  for (auto reduce : body.getOps<stablehlo::ReduceOp>()) {
    RankedTensorType type = tensorType(reduce.getInputs()[0]);
    if (type.getNumElements() <= large || type.getRank() == 0)
      continue;
    if (llvm::is_contained(reduce.getDimensions(), type.getRank() - 1))
      space.hasLanes = false;
    else if (machine == Machine::CPU &&
             (space.extents.empty() || space.extents.back() % 32 == 0))
      space.lanes = 32;
  }
  return space;
}

// True if every access walks two neighbouring loops, the inner one of `extent`
// iterations, like a single loop.
static bool canMerge(const IndexScope &scope, const AccessLog &log,
                     AffineExpr outer, AffineExpr inner, int64_t extent) {
  auto isFunctionOf = [](AffineExpr term, AffineExpr loop) {
    return term.isFunctionOfDim(cast<AffineDimExpr>(loop).getPosition());
  };
  return llvm::all_of(log.accesses, [&](AffineExpr access) {
    LinearForm form = scope.flatten(access);
    for (auto &[term, factor] : form.terms)
      if (!isa<AffineDimExpr>(term) &&
          (isFunctionOf(term, outer) || isFunctionOf(term, inner)))
        return false;
    return form.coefficient(outer) == form.coefficient(inner) * extent;
  });
}

//===----------------------------------------------------------------------===//
// Emission of the nest
//===----------------------------------------------------------------------===//

namespace {
class NestEmitter {
public:
  NestEmitter(KernelEmitter &emitter, const Space &space)
      : e(emitter), space(space) {
    yield = e.kernel.getBody().front().getTerminator();
  }
  LogicalResult emitTrial();
  /// The loops that are open: after a trial, all loops of the space.
  ArrayRef<AffineExpr> getLoops() const { return loops; }
  FailureOr<KernelRows> emit();

private:
  LogicalResult emitInnermost();
  LogicalResult emitFlat(KernelRows &rows);
  LogicalResult emitFlatOnGrid(KernelRows &rows);
  AffineExpr pushRows(int64_t count);
  size_t chooseFirstSharedLoop(size_t limit) const;
  bool canFuseReductions() const;
  SmallVector<stablehlo::ReduceOp> reductions() const {
    return llvm::to_vector(
        e.kernel.getBody().front().getOps<stablehlo::ReduceOp>());
  }
  LogicalResult emitSharedLoop(int64_t low, int64_t high, int64_t step);
  int64_t chooseThreads() const;
  LogicalResult storeOutputs(bool wantSmall);
  bool isSmall(Value output) const {
    return space.hasSmall &&
           tensorType(output).getNumElements() != space.size();
  }
  Value bound(Value a, Value b, bool isMax);

  KernelEmitter &e;
  const Space &space;
  Operation *yield;
  SmallVector<AffineExpr> loops;
  /// The first loop that is distributed over a block's threads.
  size_t shared = 0;
  /// Row reductions accumulate where the outputs are computed.
  bool fusesReductions = false;
};
} // namespace

// Stores the small or the large outputs at the current index.
LogicalResult NestEmitter::storeOutputs(bool wantSmall) {
  size_t rank = wantSmall ? space.rowRank : space.extents.size();
  AffineExpr linear =
      e.scope.linearise(ArrayRef(loops).take_front(rank),
                        ArrayRef(space.extents).take_front(rank));
  // All loads precede the first store: an output may alias an input.
  SmallVector<std::pair<unsigned, Element>> values;
  for (auto [i, output] : llvm::enumerate(yield->getOperands())) {
    if (isSmall(output) != wantSmall)
      continue;
    FailureOr<Element> value = e.element(
        output, e.scope.delinearise(linear, tensorType(output).getShape()));
    if (failed(value))
      return failure();
    values.push_back({i, *value});
  }
  if (fusesReductions && !wantSmall) {
    AffineExpr column =
        e.scope.linearise(ArrayRef(loops).drop_front(space.rowRank),
                          ArrayRef(space.extents).drop_front(space.rowRank));
    if (failed(e.accumulateRowReductions(column)))
      return failure();
  }
  for (auto [i, value] : values)
    if (failed(e.store(i, value, linear,
                       tensorType(yield->getOperand(i)).getElementType())))
      return failure();
  return success();
}

// Emits scalar loops only, to record the accesses.
LogicalResult NestEmitter::emitTrial() {
  for (size_t i = 0; i < space.extents.size(); ++i) {
    if (space.hasSmall && i == space.rowRank && failed(storeOutputs(true)))
      return failure();
    loops.push_back(e.pushLoop(0, space.extents[i]));
  }
  return storeOutputs(false);
}

Value NestEmitter::bound(Value a, Value b, bool isMax) {
  OpBuilder &at = e.at(e.innermost());
  Location loc = e.kernel.getLoc();
  if (isMax)
    return arith::MaxSIOp::create(at, loc, a, b);
  return arith::MinSIOp::create(at, loc, a, b);
}

// Emits a single loop over all elements; its rows are vectors.
LogicalResult NestEmitter::emitFlat(KernelRows &rows) {
  int64_t n = space.extents[0], lanes = space.lanes;
  while (lanes > n)
    lanes /= 2;
  rows.rows = llvm::divideCeil(n, lanes);
  unsigned first = e.kernel.getReads().size() + e.kernel.getWrites().size();
  Value step = e.constantIndex(lanes), all = e.constantIndex(n);
  int64_t whole = n / lanes * lanes;
  Value wholeValue = e.constantIndex(whole);
  Location loc = e.kernel.getLoc();
  OpBuilder &b = e.at(0);
  Value low =
      arith::MulIOp::create(b, loc, e.function.getArgument(first), step);
  Value high =
      arith::MulIOp::create(b, loc, e.function.getArgument(first + 1), step);
  auto part = [&](Value from, Value to, Interval range, int64_t step) {
    loops = {e.pushLoop(from, to, range, step, step > 1)};
    LogicalResult result = storeOutputs(false);
    e.popLoop();
    return result;
  };
  if (failed(part(low, bound(high, wholeValue, false), {0, whole - 1}, lanes)))
    return failure();
  if (whole == n)
    return success();
  return part(bound(low, wholeValue, true), bound(high, all, false),
              {whole, n - 1}, 1);
}

// Emits a single loop over all elements. The threads of the grid share its
// vectors.
LogicalResult NestEmitter::emitFlatOnGrid(KernelRows &rows) {
  int64_t n = space.extents[0], lanes = space.lanes;
  while (lanes > n)
    lanes /= 2;
  int64_t whole = n / lanes * lanes;
  rows.threads = kMaxThreads;
  rows.rows = llvm::divideCeil(n / lanes + n % lanes, rows.threads);
  auto part = [&](int64_t low, int64_t high, int64_t step) {
    if (low == high)
      return LogicalResult::success();
    loops = {e.pushLoop(low, high, step, step > 1, Spread::Grid)};
    LogicalResult result = storeOutputs(false);
    e.popLoop();
    return result;
  };
  return failure(failed(part(0, whole, lanes)) || failed(part(whole, n, 1)));
}

/// Opens the loop over the rows of this task, or of this block.
AffineExpr NestEmitter::pushRows(int64_t count) {
  if (e.grid)
    return e.pushLoop(0, count, 1, false, Spread::Blocks);
  unsigned first = e.kernel.getReads().size() + e.kernel.getWrites().size();
  return e.pushLoop(e.function.getArgument(first),
                    e.function.getArgument(first + 1), {0, count - 1}, 1,
                    false);
}

/// True if all reductions are over whole rows and no large output depends on
/// one: then a row is computed once. On a CPU the order of a sum is that of its
/// own pass in every kernel, so only reductions in any order are fused.
bool NestEmitter::canFuseReductions() const {
  if (!space.hasSmall || !space.hasLanes || (e.grid && shared != space.rowRank))
    return false;
  int64_t rowLength = 1;
  for (int64_t extent : ArrayRef(space.extents).drop_front(space.rowRank))
    rowLength *= extent;
  SmallVector<Value> large, small, summands;
  for (Value output : yield->getOperands())
    (isSmall(output) ? small : large).push_back(output);
  for (stablehlo::ReduceOp reduce : reductions()) {
    RankedTensorType type = tensorType(reduce.getInputs()[0]);
    if (reduceKind(reduce) == ReduceKind::General ||
        reduce->hasAttr(stablehlo::kInOrderAttr) ||
        (!e.grid && !stablehlo::isOrderFree(reduce)) ||
        reduce.getDimensions() != ArrayRef<int64_t>{type.getRank() - 1} ||
        type.getShape().back() != rowLength ||
        type.getNumElements() != space.size())
      return false;
    summands.push_back(reduce.getInputs()[0]);
  }
  auto isReduced = [](Value value) {
    return value.getDefiningOp<stablehlo::ReduceOp>() != nullptr;
  };
  auto isRead = [](Value value) {
    return isa<BlockArgument>(value) && tensorType(value).getNumElements() > 1;
  };
  llvm::append_range(large, summands);
  auto isReduction = llvm::IsaPred<stablehlo::ReduceOp>;
  return !summands.empty() &&
         llvm::none_of(collectDependencies(large, isReduction), isReduced) &&
         llvm::none_of(collectDependencies(small, isReduction), isRead);
}

/// Returns the first loop that threads share. With rows, a block shares the
/// loops within a row; without rows, the grid shares all loops. If a
/// reduction's result varies along these, only the innermost loop is shared.
size_t NestEmitter::chooseFirstSharedLoop(size_t limit) const {
  size_t innermost = space.extents.size() - 1;
  size_t first = space.hasRows ? std::min(innermost, limit) : 0;
  int64_t rows = 1;
  for (int64_t extent : ArrayRef(space.extents).take_front(first))
    rows *= extent;
  for (auto reduce : e.kernel.getBody().front().getOps<stablehlo::ReduceOp>())
    if (tensorType(reduce.getResult(0)).getNumElements() > rows)
      return innermost;
  return first;
}

/// Returns as many threads as the longest shared loop has vectors.
int64_t NestEmitter::chooseThreads() const {
  int64_t longest = 1;
  if (space.hasLanes)
    for (int64_t extent : ArrayRef(space.extents).drop_front(shared))
      longest *= extent;
  for (auto reduce : e.kernel.getBody().front().getOps<stablehlo::ReduceOp>())
    for (int64_t dim : reduce.getDimensions())
      longest =
          std::max(longest, tensorType(reduce.getInputs()[0]).getDimSize(dim));
  int64_t vectors = llvm::divideCeil(longest, space.lanes);
  return std::clamp<int64_t>(llvm::alignTo(vectors, kWarp), kWarp, kMaxThreads);
}

/// Emits one loop, shared by the threads, over the vectors of a part of the
/// innermost loop and over the other shared loops around it.
LogicalResult NestEmitter::emitSharedLoop(int64_t low, int64_t high,
                                          int64_t step) {
  ArrayRef<int64_t> around =
      ArrayRef(space.extents).drop_front(shared).drop_back();
  int64_t vectors = (high - low) / step, count = vectors;
  for (int64_t extent : around)
    count *= extent;
  const size_t outer = loops.size();
  Spread spread = space.hasRows ? Spread::Threads : Spread::Grid;
  AffineExpr mine = e.pushLoop(0, count, 1, false, spread);
  Index index = e.scope.delinearise(e.scope.floorDiv(mine, vectors), around);
  loops.append(index.begin(), index.end());
  loops.push_back(e.pushIteration(e.scope.mod(mine, vectors) * step + low,
                                  {low, high - 1}, step));
  LogicalResult result = storeOutputs(false);
  e.popLoop();
  e.popLoop();
  loops.resize(outer);
  return result;
}

LogicalResult NestEmitter::emitInnermost() {
  if (!space.hasLanes || space.extents.empty())
    return storeOutputs(false);
  int64_t n = space.extents.back();
  SmallVector<int64_t> ends(space.cuts);
  ends.push_back(n);
  int64_t begin = 0;
  auto part = [&](int64_t low, int64_t high, int64_t step) {
    if (low == high)
      return LogicalResult::success();
    if (loops.size() + 1 < space.extents.size())
      return emitSharedLoop(low, high, step);
    loops.push_back(e.pushLoop(low, high, step, step > 1, Spread::Threads));
    LogicalResult result = storeOutputs(false);
    e.popLoop();
    loops.pop_back();
    return result;
  };
  for (int64_t end : ends) {
    int64_t lanes = space.lanes;
    while (lanes > end - begin)
      lanes /= 2;
    int64_t whole = begin + (end - begin) / lanes * lanes;
    if (failed(part(begin, whole, lanes)) || failed(part(whole, end, 1)))
      return failure();
    begin = end;
  }
  return success();
}

FailureOr<KernelRows> NestEmitter::emit() {
  KernelRows rows;
  size_t rank = space.extents.size();
  if (rank == 1 && space.hasLanes && !space.hasSmall && space.cuts.empty()) {
    if (failed(e.grid ? emitFlatOnGrid(rows) : emitFlat(rows)))
      return failure();
    return rows;
  }
  // Rows of the task: as few leading loops as give enough rows.
  size_t scalarLoops = rank - (space.hasLanes && rank > 0);
  size_t limit = space.hasRows ? space.rowRank : scalarLoops;
  shared = scalarLoops;
  if (e.grid && space.hasLanes && rank > 0) {
    shared = chooseFirstSharedLoop(limit);
    limit = std::min(limit, shared);
  }
  size_t leading = 0;
  while (leading < limit &&
         (e.grid || rows.rows < kMinRows || rows.rows % space.tiles != 0))
    rows.rows *= space.extents[leading++];
  rows.threads = chooseThreads();
  if (!space.hasRows && shared < scalarLoops)
    rows.rows = llvm::divideCeil(space.size() / space.lanes, rows.threads);
  if (leading > 0) {
    AffineExpr row = pushRows(rows.rows);
    Index index =
        e.scope.delinearise(row, ArrayRef(space.extents).take_front(leading));
    loops.append(index.begin(), index.end());
  }
  size_t rowRank = limit;
  while (loops.size() < rowRank)
    loops.push_back(e.pushLoop(0, space.extents[loops.size()]));
  // Small outputs first: storing the columns overwrites an input that shares
  // their memory.
  fusesReductions = leading > 0 && canFuseReductions();
  AffineExpr row = e.scope.linearise(
      loops, ArrayRef(space.extents).take_front(loops.size()));
  const unsigned rowLevel = e.innermost();
  if (fusesReductions &&
      failed(e.openRowReductions(reductions(), row, space.lanes)))
    return failure();
  if (space.hasSmall && !fusesReductions && failed(storeOutputs(true)))
    return failure();
  while (loops.size() < shared)
    loops.push_back(e.pushLoop(0, space.extents[loops.size()]));
  if (failed(emitInnermost()))
    return failure();
  if (fusesReductions) {
    while (e.innermost() > rowLevel)
      e.popLoop();
    loops.resize(rowRank);
    e.closeRowReductions();
    if (failed(storeOutputs(true)))
      return failure();
  }
  while (e.innermost() > 0)
    e.popLoop();
  return rows;
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

static void chooseGrain(plan::KernelOp kernel, KernelRows &rows) {
  int64_t work = 1;
  for (Operation &op : kernel.getBody().front())
    for (Value value : op.getOperands())
      work = std::max(work, tensorType(value).getNumElements());
  int64_t perRow = std::max<int64_t>(1, work / rows.rows);
  rows.grain = std::clamp<int64_t>(kTaskElements / perRow, 1, rows.rows);
}

FailureOr<KernelRows> scalify::codegen::emitKernel(plan::KernelOp kernel,
                                                   func::FuncOp function,
                                                   Machine machine) {
  function.addEntryBlock();
  Operation *yield = kernel.getBody().front().getTerminator();
  if (yield->getNumOperands() == 1)
    if (auto scatter =
            yield->getOperand(0).getDefiningOp<stablehlo::ScatterOp>()) {
      KernelEmitter emitter(kernel, function, machine);
      FailureOr<int64_t> blocks = emitter.emitScatter(scatter);
      if (failed(blocks))
        return failure();
      KernelRows rows;
      rows.rows = *blocks;
      rows.threads = kMaxThreads;
      return rows;
    }
  if (machine == Machine::GPU)
    if (std::optional<TileSpace> tiles = chooseTiles(kernel)) {
      KernelEmitter emitter(kernel, function, machine);
      return emitTiles(emitter, *tiles);
    }
  FailureOr<Space> space = chooseSpace(kernel, machine);
  if (failed(space))
    return failure();
  {
    AccessLog log;
    OwningOpRef<func::FuncOp> trial = function.clone();
    // The trial learns only indices, which are equal on every machine.
    KernelEmitter emitter(kernel, *trial, Machine::CPU);
    emitter.log = &log;
    NestEmitter nest(emitter, *space);
    if (failed(nest.emitTrial()))
      return failure();
    if (!space->extents.empty() && space->hasLanes) {
      size_t last = space->extents.size() - 1;
      AffineExpr inner = nest.getLoops().back();
      for (auto [expr, value] : log.boundaries) {
        LinearForm form = emitter.scope.flatten(expr);
        int64_t cut = value - form.constant;
        if (form.terms.size() == 1 && form.coefficient(inner) == 1 && cut > 0 &&
            cut < space->extents[last] && !llvm::is_contained(space->cuts, cut))
          space->cuts.push_back(cut);
      }
      llvm::sort(space->cuts);
      // Many parts are better distinguished at run time.
      if (space->cuts.size() > 8)
        space->cuts.clear();
    }
    // Merging from the inside out keeps the positions to the left.
    const SmallVector<int64_t> original(space->extents);
    // The first loops of which tiles are ranges stay apart from the others.
    int64_t tileRank = 0;
    for (int64_t rows = 1;
         rows % space->tiles != 0 && tileRank < int64_t(original.size());)
      rows *= original[tileRank++];
    for (int64_t i = int64_t(original.size()) - 2; i >= 0; --i) {
      if (i + 1 == tileRank)
        continue;
      if (space->hasRows && size_t(i) + 1 == space->rowRank)
        continue;
      if (!canMerge(emitter.scope, log, nest.getLoops()[i],
                    nest.getLoops()[i + 1], original[i + 1]))
        continue;
      space->extents[i] *= space->extents[i + 1];
      space->extents.erase(space->extents.begin() + i + 1);
      if (size_t(i) < space->rowRank)
        --space->rowRank;
    }
  }
  KernelEmitter emitter(kernel, function, machine);
  NestEmitter nest(emitter, *space);
  FailureOr<KernelRows> rows = nest.emit();
  if (failed(rows) || failed(emitter.finish()) ||
      failed(emitter.checkInPlace()))
    return failure();
  if (rows->rows % space->tiles != 0)
    return kernel.emitOpError("has ") << rows->rows << " rows, which "
                                      << space->tiles << " tiles cannot share";
  if (machine == Machine::CPU)
    chooseGrain(kernel, *rows);
  return rows;
}
