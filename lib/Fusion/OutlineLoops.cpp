//===- OutlineLoops.cpp - Loops that a plan runs as loops -----------------===//
//
// A loop of a plan is a program of its own that overwrites its carries. Its
// function marks each carry as donated, so that the rules on memory of donated
// arguments hold for carries: writes in place, and copies before them.
//
//===----------------------------------------------------------------------===//

#include "OpCosts.h"
#include "TargetOps.h"
#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Fusion/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

namespace scalify {
#define GEN_PASS_DEF_OUTLINELOOPS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

namespace {
class OutlineLoopsPass
    : public scalify::impl::OutlineLoopsBase<OutlineLoopsPass> {
public:
  using OutlineLoopsBase::OutlineLoopsBase;
  void runOnOperation() override;

private:
  bool isOutlined(WhileOp loop) const;

  bool isGPU = false;
};

/// Replaces one loop.
class Outliner {
public:
  explicit Outliner(WhileOp loop)
      : loop(loop), trips(getTripCount(loop)), b(loop) {}
  void outline(SymbolTable &symbols);

private:
  void sortValues();
  func::FuncOp buildBody();
  Value inlineCondition(OpBuilder &b, ValueRange carries, IRMapping map);
  void replace(func::FuncOp body);

  WhileOp loop;
  std::optional<int64_t> trips;
  OpBuilder b;
  SmallVector<unsigned> carried, invariant; // indices of carries
  SmallVector<unsigned> repeatedCarries;    // invariant, and computed again
  SmallVector<Value> captured;
  /// Ops from outside that the body computes again, in their order.
  llvm::SetVector<Operation *> repeated;
};
} // namespace

/// The most ops that a body repeats for one value.
static constexpr unsigned kMostRepeated = 32;

/// True for ops whose results cost a kernel less to compute than to read.
static bool isCheap(Operation *op) {
  return isView(op) || (isElementwiseOp(op) && costOf(op) <= 1);
}

/// Adds the ops that compute a value from constants alone to `ops`; false if
/// there are others, or expensive ones. A causal mask is such a value.
static bool findRepeated(Value value, llvm::SetVector<Operation *> &ops) {
  Operation *op = value.getDefiningOp();
  if (!op || !isCheap(op) || ops.size() > kMostRepeated)
    return false;
  if (!ops.contains(op) && !llvm::all_of(op->getOperands(), [&](Value operand) {
        return findRepeated(operand, ops);
      }))
    return false;
  ops.insert(op);
  return true;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

/// A loop with collectives runs alike on all ranks if its length is known, and
/// a GPU's commands have one order in it too. Unrolled, they run beside the
/// computation of other iterations, so that is preferred for longer.
static constexpr int64_t kExchangingOps = 16;

bool OutlineLoopsPass::isOutlined(WhileOp loop) const {
  if (hasEffects(loop) || loop->getNumResults() == 0)
    return false;
  std::optional<int64_t> trips = getTripCount(loop);
  if (isExchanging(loop))
    return isGPU && trips && countUnrolledOps(loop) / kExchangingOps > maxOps;
  return !trips || countUnrolledOps(loop) > maxOps;
}

//===----------------------------------------------------------------------===//
// Outlining
//===----------------------------------------------------------------------===//

/// The body computes values that follow from constants alone, and reads all
/// others from outside.
void Outliner::sortValues() {
  auto isRepeated = [&](Value value) {
    llvm::SetVector<Operation *> ops;
    if (!findRepeated(value, ops))
      return false;
    repeated.insert_range(ops);
    return true;
  };
  for (unsigned i = 0; i < loop->getNumOperands(); ++i)
    if (!isInvariantCarry(loop, i))
      carried.push_back(i);
    else if (isRepeated(loop->getOperand(i)))
      repeatedCarries.push_back(i);
    else
      invariant.push_back(i);
  llvm::SetVector<Value> above;
  getUsedValuesDefinedAbove(loop->getRegions(), above);
  for (Value value : above)
    if (!isRepeated(value))
      captured.push_back(value);
}

/// Clones the condition's ops for the carries, which are given by index.
Value Outliner::inlineCondition(OpBuilder &b, ValueRange carries,
                                IRMapping map) {
  Block &cond = loop.getCond().front();
  map.map(cond.getArguments(), carries);
  for (Operation &op : cond.without_terminator())
    copyPhase(loop, b.clone(op, map));
  return map.lookupOrDefault(cond.getTerminator()->getOperand(0));
}

func::FuncOp Outliner::buildBody() {
  SmallVector<Type> types, results;
  SmallVector<Location> locs;
  auto add = [&](Value value) {
    types.push_back(value.getType());
    locs.push_back(value.getLoc());
  };
  for (unsigned i : carried)
    add(loop->getOperand(i));
  if (!trips) {
    types.push_back(RankedTensorType::get({}, b.getI1Type()));
    locs.push_back(loop.getLoc());
  }
  results = types;
  for (unsigned i : invariant)
    add(loop->getOperand(i));
  llvm::for_each(captured, add);
  auto function = func::FuncOp::create(loop.getLoc(), "loop0",
                                       b.getFunctionType(types, results));
  function.setPrivate();
  Block *block = function.addEntryBlock();
  for (auto [argument, loc] : llvm::zip(block->getArguments(), locs))
    argument.setLoc(loc);
  for (unsigned i = 0; i < results.size(); ++i)
    function.setArgAttr(i, "tf.aliasing_output",
                        b.getI32IntegerAttr(static_cast<int32_t>(i)));

  OpBuilder inner = OpBuilder::atBlockEnd(block);
  IRMapping map;
  for (Operation *op : repeated)
    inner.clone(*op, map);
  SmallVector<Value> now(loop->getNumOperands());
  unsigned next = 0;
  for (unsigned i : carried)
    now[i] = block->getArgument(next++);
  next = results.size();
  for (unsigned i : invariant)
    now[i] = block->getArgument(next++);
  for (unsigned i : repeatedCarries)
    now[i] = map.lookup(loop->getOperand(i));
  for (Value value : captured)
    map.map(value, block->getArgument(next++));
  Block &body = loop.getBody().front();
  IRMapping outside = map;
  map.map(body.getArguments(), now);
  for (Operation &op : body.without_terminator())
    inner.clone(op, map);
  SmallVector<Value> after;
  for (Value value : body.getTerminator()->getOperands())
    after.push_back(map.lookupOrDefault(value));
  SmallVector<Value> returned;
  for (unsigned i : carried)
    returned.push_back(after[i]);
  if (!trips)
    returned.push_back(inlineCondition(inner, after, outside));
  func::ReturnOp::create(inner, loop.getLoc(), returned);
  return function;
}

void Outliner::replace(func::FuncOp body) {
  SmallVector<Value> carries, reads;
  for (unsigned i : carried)
    carries.push_back(loop->getOperand(i));
  for (unsigned i : invariant)
    reads.push_back(loop->getOperand(i));
  llvm::append_range(reads, captured);
  IntegerAttr count, condition;
  if (trips) {
    count = b.getI64IntegerAttr(*trips);
  } else {
    condition = b.getI64IntegerAttr(int64_t(carries.size()));
    carries.push_back(inlineCondition(b, loop->getOperands(), IRMapping()));
  }
  auto iterate = plan::IterateOp::create(
      b, loop.getLoc(), TypeRange(ValueRange(carries)), body.getSymNameAttr(),
      carries, reads, count, condition, DenseI64ArrayAttr());
  copyPhase(loop, iterate);
  for (ArrayRef<unsigned> kept :
       {ArrayRef(invariant), ArrayRef(repeatedCarries)})
    for (unsigned i : kept)
      loop->getResult(i).replaceAllUsesWith(loop->getOperand(i));
  for (auto [i, result] : llvm::zip_first(carried, iterate.getResults()))
    loop->getResult(i).replaceAllUsesWith(result);
  loop.erase();
}

void Outliner::outline(SymbolTable &symbols) {
  sortValues();
  func::FuncOp body = buildBody();
  symbols.insert(body);
  replace(body);
}

void OutlineLoopsPass::runOnOperation() {
  isGPU = TargetAttr::of(getOperation()).isGPU;
  SymbolTable symbols(getOperation());
  // Inner loops first: outlined, they are one op of the outer ones.
  SmallVector<WhileOp> loops;
  getOperation().walk([&](WhileOp loop) { loops.push_back(loop); });
  for (WhileOp loop : loops) {
    if (!isOutlined(loop))
      continue;
    if (isGPU && !getTripCount(loop))
      loop.emitRemark("runs a number of times that is not known: before each "
                      "iteration the host waits for the GPU and reads the "
                      "condition, and no CUDA graph holds the step");
    Outliner(loop).outline(symbols);
    ++numOutlined;
  }
}
