//===- ProbeCasts.cpp - Operands of casts as results of main --------------===//
//
// A value in a nested body cannot be a result of main. Loops get extra carries
// that record it, branches get extra results, from the inside out.
//
//===----------------------------------------------------------------------===//

#include "ProbeCasts.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Values.h"

using namespace mlir;
using namespace scalify;
using stablehlo::WhileOp;

// Larger stacks would change the memory that the program needs.
static constexpr int64_t kMaxStackedTrips = 256;
static constexpr int64_t kMaxStackedElements = int64_t(1) << 26;

/// Returns the stack length for a value of this type; none if not stacked.
static std::optional<int64_t> getStackLength(WhileOp loop, Type type) {
  std::optional<int64_t> trips = stablehlo::getTripCount(loop);
  if (!trips || *trips < 1 || *trips > kMaxStackedTrips ||
      *trips * cast<ShapedType>(type).getNumElements() > kMaxStackedElements)
    return std::nullopt;
  return trips;
}

namespace {
/// The probed values in one loop's body.
class LoopProbes {
public:
  LoopProbes(WhileOp loop, ArrayRef<Value *> probes)
      : loop(loop), probes(probes), before(loop), loc(loop.getLoc()) {}
  Operation *expose();

private:
  void addCarry(Value init, llvm::function_ref<Value(Value)> next);
  Value stack(Value value, Value into, Value counter);

  WhileOp loop;
  ArrayRef<Value *> probes;
  OpBuilder before;
  Location loc;
  SmallVector<Value> inits, nexts;
};
} // namespace

/// Adds a carry that starts as `init` and is updated by `next`.
void LoopProbes::addCarry(Value init, llvm::function_ref<Value(Value)> next) {
  inits.push_back(init);
  loop.getCond().front().addArgument(init.getType(), loc);
  nexts.push_back(
      next(loop.getBody().front().addArgument(init.getType(), loc)));
}

Value LoopProbes::stack(Value value, Value into, Value counter) {
  OpBuilder builder(loop.getBody().front().getTerminator());
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape{1};
  llvm::append_range(shape, type.getShape());
  Value entry =
      stablehlo::ReshapeOp::create(builder, loc, type.clone(shape), value);
  Value zero = stablehlo::buildZeros(builder, loc, counter.getType());
  SmallVector<Value> start(shape.size(), zero);
  start[0] = counter;
  return stablehlo::DynamicUpdateSliceOp::create(builder, loc, into, entry,
                                                 start);
}

Operation *LoopProbes::expose() {
  Operation *terminator = loop.getBody().front().getTerminator();
  auto index = RankedTensorType::get({}, before.getI32Type());
  Value counter;
  addCarry(stablehlo::buildZeros(before, loc, index), [&](Value arg) -> Value {
    counter = arg;
    OpBuilder builder(terminator);
    Value one = stablehlo::buildConstant(builder, loc, index, int32_t(1));
    return stablehlo::AddOp::create(builder, loc, arg, one);
  });
  for (Value *probe : probes) {
    auto type = cast<RankedTensorType>(probe->getType());
    std::optional<int64_t> length = getStackLength(loop, type);
    bool isInBody = probe->getParentRegion() == &loop.getBody();
    if (length) {
      SmallVector<int64_t> shape{*length};
      llvm::append_range(shape, type.getShape());
      type = type.clone(shape);
    }
    addCarry(stablehlo::buildZeros(before, loc, type), [&](Value arg) -> Value {
      // Values in the condition are not worth a carry.
      if (!isInBody)
        return arg;
      return length ? stack(*probe, arg, counter) : *probe;
    });
  }
  terminator->insertOperands(terminator->getNumOperands(), nexts);
  unsigned first = loop.getNumResults() + 1;
  Operation *clone =
      stablehlo::extendControlFlow(loop, inits, ValueRange(inits).getTypes());
  for (auto [i, probe] : llvm::enumerate(probes))
    *probe = clone->getResult(first + i);
  return clone;
}

static Operation *exposeFromBranches(Operation *op, ArrayRef<Value *> probes) {
  SmallVector<Type> types;
  for (Value *probe : probes)
    types.push_back(probe->getType());
  for (Region &region : op->getRegions()) {
    Operation *terminator = region.front().getTerminator();
    OpBuilder builder(terminator);
    SmallVector<Value> returned;
    for (Value *probe : probes)
      returned.push_back(
          probe->getParentRegion() == &region
              ? *probe
              : stablehlo::buildZeros(builder, op->getLoc(), probe->getType()));
    terminator->insertOperands(terminator->getNumOperands(), returned);
  }
  unsigned first = op->getNumResults();
  Operation *clone = stablehlo::extendControlFlow(op, {}, types);
  for (auto [i, probe] : llvm::enumerate(probes))
    *probe = clone->getResult(first + i);
  return clone;
}

static unsigned getDepth(Operation *op) {
  unsigned depth = 0;
  while ((op = op->getParentOp()))
    ++depth;
  return depth;
}

/// Replaces each value by a value of the function's own block that holds it.
static void exposeAll(func::FuncOp func, MutableArrayRef<Value> values) {
  while (true) {
    Operation *deepest = func;
    for (Value value : values)
      if (Operation *parent = value.getParentRegion()->getParentOp();
          getDepth(parent) > getDepth(deepest))
        deepest = parent;
    if (deepest == func)
      return;
    SmallVector<Value *> probes;
    SmallVector<std::pair<Value *, unsigned>> results;
    for (Value &value : values)
      if (value.getParentRegion()->getParentOp() == deepest)
        probes.push_back(&value);
      else if (value.getDefiningOp() == deepest)
        results.push_back({&value, cast<OpResult>(value).getResultNumber()});
    auto loop = dyn_cast<WhileOp>(deepest);
    Operation *clone = loop ? LoopProbes(loop, probes).expose()
                            : exposeFromBranches(deepest, probes);
    // The op that defined them is erased.
    for (auto [value, index] : results)
      *value = clone->getResult(index);
  }
}

LogicalResult scalify::checkCastsAreReachable(func::FuncOp func) {
  WalkResult result = func.walk([](QuantizeOp cast) -> WalkResult {
    if (!cast->getParentOfType<sdy::ManualComputationOp>())
      return WalkResult::advance();
    return cast.emitOpError("is in 'sdy.manual_computation', where it "
                            "cannot be measured: a device sees only its own "
                            "shard; measure the program without shard_map");
  });
  return failure(result.wasInterrupted());
}

void scalify::appendResults(func::FuncOp func, ValueRange values) {
  Operation *terminator = func.getBody().front().getTerminator();
  SmallVector<DictionaryAttr> attrs;
  func.getAllResultAttrs(attrs);
  terminator->insertOperands(terminator->getNumOperands(), values);
  attrs.resize(terminator->getNumOperands(),
               DictionaryAttr::get(func.getContext()));
  func.setFunctionType(FunctionType::get(func.getContext(),
                                         func.getArgumentTypes(),
                                         terminator->getOperandTypes()));
  func.setAllResultAttrs(attrs);
}

void scalify::appendCastProbes(func::FuncOp func) {
  SmallVector<Value> values;
  func.walk([&](QuantizeOp op) {
    values.push_back(op.getValue());
    values.push_back(op.getScale());
  });
  exposeAll(func, values);
  appendResults(func, values);
}
