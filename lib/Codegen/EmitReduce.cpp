//===- EmitReduce.cpp - Reductions ----------------------------------------===//
//
// A reduction is emitted where its kept index is known. If the kept index
// varies across lanes (sums over rows), each lane sums its own column.
// Otherwise the innermost reduced dimension becomes lanes, which are combined
// at the end in an order that depends only on the lane count. If another
// reduction has taken the lanes, separate partial sums replace them and are
// combined in the same order. Reductions of one shape whose dependencies are
// known share one loop.
//
//===----------------------------------------------------------------------===//

#include "Combiner.h"
#include "KernelEmitter.h"

#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/Reductions.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

ReduceKind scalify::codegen::reduceKind(stablehlo::ReduceOp op) {
  Block &body = op.getBody().front();
  if (op.getInputs().size() != 1 ||
      !llvm::hasNItems(body.without_terminator(), 1))
    return ReduceKind::General;
  Operation *inner = &body.front();
  auto isArgument = [&](Value v) {
    auto argument = dyn_cast<BlockArgument>(v);
    return argument && argument.getOwner() == &body;
  };
  if (inner->getNumOperands() != 2 || !isArgument(inner->getOperand(0)) ||
      !isArgument(inner->getOperand(1)) ||
      inner->getOperand(0) == inner->getOperand(1))
    return ReduceKind::General;
  return llvm::TypeSwitch<Operation *, ReduceKind>(inner)
      .Case([](stablehlo::AddOp) { return ReduceKind::Add; })
      .Case([](stablehlo::MulOp) { return ReduceKind::Mul; })
      .Case([](stablehlo::MaxOp) { return ReduceKind::Max; })
      .Case([](stablehlo::MinOp) { return ReduceKind::Min; })
      .Case([](stablehlo::AndOp) { return ReduceKind::And; })
      .Case([](stablehlo::OrOp) { return ReduceKind::Or; })
      .Case([](stablehlo::XorOp) { return ReduceKind::Xor; })
      .Default([](Operation *) { return ReduceKind::General; });
}

namespace {
/// The partial results of one reduction.
struct Accumulator {
  stablehlo::ReduceOp op;
  Combiner combiner;
  SmallVector<Value> single; // memory of one element per result
  Value lanes;               // memory of a vector, or null
  Value start;               // the init value
  bool hasKeys = false;      // lanes holds keys
};
} // namespace

LogicalResult KernelEmitter::apply(Block &body, ArrayRef<Element> arguments,
                                   SmallVectorImpl<Element> &results) {
  unsigned level = 0;
  for (Element e : arguments)
    level = std::max(level, e.level);
  IRMapping map;
  bool isVector = llvm::any_of(
      arguments, [](Element e) { return isa<VectorType>(e.value.getType()); });
  OpBuilder &b = at(level);
  for (auto [argument, e] : llvm::zip(body.getArguments(), arguments))
    map.map(argument, isVector ? broadcast(b, e.value) : e.value);
  for (Operation &op : body.without_terminator()) {
    if (isa<stablehlo::ConstantOp>(op)) {
      FailureOr<Element> e = compute(op.getResult(0), {});
      if (failed(e))
        return failure();
      OpBuilder &b = at(level);
      map.map(op.getResult(0), isVector ? broadcast(b, e->value) : e->value);
      continue;
    }
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(map.lookup(operand));
    FailureOr<Value> value = failure();
    if (isElementwiseOp(&op))
      value = emitElementwise(at(level), &op, operands, machine);
    if (failed(value))
      return op.emitOpError("not in the CPU target inside a reduction");
    map.map(op.getResult(0), *value);
  }
  for (Value value : body.getTerminator()->getOperands())
    results.push_back({map.lookup(value), level});
  return success();
}

static bool isGeneral(stablehlo::ReduceOp op) {
  return reduceKind(op) == ReduceKind::General;
}

// True if the innermost dimension in memory is reduced. The reduction then goes
// by lanes, or by as many partial sums if the kernel's lanes are taken. Other
// reductions sum each result element by element.
static bool reducesInnermostDim(stablehlo::ReduceOp op) {
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(op.getInputs()[0].getType()).getShape();
  int64_t last = static_cast<int64_t>(shape.size()) - 1;
  while (last >= 0 && shape[last] == 1)
    --last;
  return llvm::is_contained(op.getDimensions(), last);
}

// Returns the reductions that can share the loop of `op`: same operand shape,
// dimensions and index, and all dependencies known.
SmallVector<stablehlo::ReduceOp>
KernelEmitter::findFusibleReductions(stablehlo::ReduceOp op,
                                     const Index &index) {
  SmallVector<stablehlo::ReduceOp> group{op};
  Key key{nullptr, {}};
  for (AffineExpr expr : index)
    key.second.push_back(expr.getAsOpaquePointer());
  auto isKnown = [&](Operation *reduce) {
    key.first = reduce->getResult(0).getAsOpaquePointer();
    return elements.count(key) != 0;
  };
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(op.getInputs()[0].getType()).getShape();
  for (auto other : kernel.getBody().front().getOps<stablehlo::ReduceOp>()) {
    auto type = cast<RankedTensorType>(other.getInputs()[0].getType());
    if (other == op || type.getShape() != shape ||
        other.getDimensions() != op.getDimensions() || isKnown(other) ||
        isGeneral(other) != isGeneral(op))
      continue;
    if (llvm::all_of(reduceDependencies[other], isKnown))
      group.push_back(other);
  }
  return group;
}

FailureOr<Element> KernelEmitter::elementOfReduce(stablehlo::ReduceOp op,
                                                  unsigned result,
                                                  const Index &index) {
  unsigned level = 0;
  for (AffineExpr expr : index)
    level = std::max(level, scope.level(expr));
  // Reductions of its shape that it depends on come first, in their own loops.
  auto shapeOf = [](stablehlo::ReduceOp reduce) {
    return cast<RankedTensorType>(reduce.getInputs()[0].getType()).getShape();
  };
  for (auto other : kernel.getBody().front().getOps<stablehlo::ReduceOp>())
    if (reduceDependencies[op].contains(other) &&
        shapeOf(other) == shapeOf(op) &&
        other.getDimensions() == op.getDimensions() &&
        failed(element(other.getResult(0), index)))
      return failure();
  SmallVector<stablehlo::ReduceOp> group = findFusibleReductions(op, index);
  if (failed(
          atLevel(level, [&] { return emitReduceGroup(group, index, level); })))
    return failure();
  Key key{op.getResult(result).getAsOpaquePointer(), {}};
  for (AffineExpr expr : index)
    key.second.push_back(expr.getAsOpaquePointer());
  return elements.at(key);
}

// The operand's index: kept dimensions from `index`, reduced ones from loops.
static Index operandIndex(stablehlo::ReduceOp op, const Index &index,
                          ArrayRef<AffineExpr> loops) {
  int64_t rank = cast<RankedTensorType>(op.getInputs()[0].getType()).getRank();
  Index full;
  size_t kept = 0, reduced = 0;
  for (int64_t d = 0; d < rank; ++d)
    full.push_back(llvm::is_contained(op.getDimensions(), d) ? loops[reduced++]
                                                             : index[kept++]);
  return full;
}

/// Emits the loops of reductions that share one pass over their operands.
struct KernelEmitter::ReduceGroup {
  KernelEmitter &emitter;
  ArrayRef<stablehlo::ReduceOp> ops;
  const Index &index; // of the results
  unsigned level;     // of the results
  Location loc;
  SmallVector<int64_t> dims, extents; // reduced, in order
  bool hasVectorResults;              // the results are vectors
  int64_t width = 1;                  // lanes of the innermost loop
  int64_t apart = 1;                  // partial sums that replace lanes
  SmallVector<Value> place;           // of the partial sum being added to
  bool isShared = false;              // distributed over threads
  SmallVector<Accumulator> accumulators;
  SmallVector<Value> rowsToKeep;

  ReduceGroup(KernelEmitter &emitter, ArrayRef<stablehlo::ReduceOp> ops,
              const Index &index, unsigned level);
  LogicalResult allocate();
  LogicalResult loop();
  LogicalResult accumulate(ArrayRef<AffineExpr> loops, bool inLanes);
  void finish();

private:
  LogicalResult allocate(Accumulator &acc);
  LogicalResult accumulatePartialSums(SmallVectorImpl<AffineExpr> &loops);
  Value combineLanes(const Accumulator &acc, OpBuilder &b) const;
  SmallVector<Value> placeOf(OpBuilder &b, int64_t lane) const;
  LogicalResult accumulate(Accumulator &acc, ArrayRef<AffineExpr> loops,
                           bool inLanes);
};

KernelEmitter::ReduceGroup::ReduceGroup(KernelEmitter &emitter,
                                        ArrayRef<stablehlo::ReduceOp> ops,
                                        const Index &index, unsigned level)
    : emitter(emitter), ops(ops), index(index), level(level),
      loc(stablehlo::ReduceOp(ops.front()).getLoc()) {
  stablehlo::ReduceOp first = ops.front();
  hasVectorResults = llvm::any_of(
      index, [&](AffineExpr e) { return emitter.scope.dependsOnLanes(e); });
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(first.getInputs()[0].getType()).getShape();
  llvm::append_range(dims, first.getDimensions());
  llvm::sort(dims);
  for (int64_t dim : dims)
    extents.push_back(shape[dim]);
  // The same order in every kernel; on a GPU threads share every sum.
  bool hasLanes = !first->hasAttr(stablehlo::kInOrderAttr) &&
                  (emitter.grid || reducesInnermostDim(first));
  if (hasLanes && !isGeneral(first) && !extents.empty() && !emitter.log)
    for (width = emitter.maxSumLanes; width > 1 && extents.back() < width;)
      width /= 2;
  if (hasVectorResults) {
    apart = emitter.grid ? 1 : width;
    width = 1;
  }
  isShared = emitter.grid && width > 1 && !emitter.isSpread(level);
  // A GPU thread has no memory for a row.
  if (width > 1 && !emitter.grid)
    rowsToKeep = emitter.valuesToKeep(ops);
}

/// Returns the index of a partial sum that replaces a lane.
SmallVector<Value> KernelEmitter::ReduceGroup::placeOf(OpBuilder &b,
                                                       int64_t lane) const {
  if (apart == 1)
    return {};
  return {arith::ConstantIndexOp::create(b, loc, lane)};
}

// Allocates the partial results, which LLVM promotes to registers.
LogicalResult KernelEmitter::ReduceGroup::allocate() {
  for (stablehlo::ReduceOp op : ops) {
    Type element = getElementTypeOrSelf(op.getInputs()[0].getType());
    accumulators.push_back({op, {reduceKind(op), element}, {}, {}, {}});
    if (failed(allocate(accumulators.back())))
      return failure();
  }
  return success();
}

LogicalResult KernelEmitter::ReduceGroup::allocate(Accumulator &acc) {
  for (Value init : acc.op.getInitValues()) {
    FailureOr<Element> e = emitter.element(init, {});
    if (failed(e))
      return failure();
    Value start = e->value;
    if (hasVectorResults)
      start = emitter.broadcast(emitter.at(level), start);
    acc.start = start;
    if (isShared)
      start = acc.combiner.identity(emitter.at(level), loc, start.getType());
    Value memory = memref::AllocaOp::create(
        emitter.atEntry(), loc, MemRefType::get({}, start.getType()));
    memref::StoreOp::create(emitter.at(level), loc, start, memory);
    acc.single.push_back(memory);
  }
  if (width == 1 && apart == 1)
    return success();
  Type type =
      apart > 1 ? acc.start.getType()
                : VectorType::get({width}, registerType(acc.combiner.element));
  SmallVector<int64_t> shape;
  if (apart > 1)
    shape.push_back(apart);
  acc.hasKeys = acc.combiner.hasKeys(emitter.machine);
  Type stored = acc.hasKeys ? Combiner::keysLike(type) : type;
  acc.lanes = memref::AllocaOp::create(emitter.atEntry(), loc,
                                       MemRefType::get(shape, stored));
  OpBuilder &b = emitter.at(level);
  Value identity = acc.combiner.identity(b, loc, type);
  if (acc.hasKeys)
    identity = acc.combiner.toKeys(b, loc, identity);
  for (int64_t lane = 0; lane < apart; ++lane)
    memref::StoreOp::create(b, loc, identity, acc.lanes, placeOf(b, lane));
  return success();
}

LogicalResult KernelEmitter::ReduceGroup::accumulate(ArrayRef<AffineExpr> loops,
                                                     bool inLanes) {
  for (Value value : rowsToKeep) {
    Index at = operandIndex(ops.front(), index, loops);
    if (failed(emitter.element(value, at)))
      return failure();
    emitter.keep(value, at, dims, loops, extents);
  }
  for (Accumulator &acc : accumulators)
    if (failed(accumulate(acc, loops, inLanes)))
      return failure();
  return success();
}

LogicalResult KernelEmitter::ReduceGroup::accumulate(Accumulator &acc,
                                                     ArrayRef<AffineExpr> loops,
                                                     bool inLanes) {
  Index at = operandIndex(acc.op, index, loops);
  SmallVector<Element> inputs;
  for (Value input : acc.op.getInputs()) {
    FailureOr<Element> e = emitter.element(input, at);
    if (failed(e))
      return failure();
    inputs.push_back(*e);
  }
  OpBuilder &b = emitter.at(emitter.innermost());
  if (acc.combiner.kind != ReduceKind::General) {
    Value next = inputs[0].value;
    if (inLanes)
      next = emitter.broadcast(b, next);
    // Reductions fused with the outputs may have no vector of so many lanes.
    auto fits = [&](Value lanes) {
      Type type = next.getType();
      return cast<MemRefType>(lanes.getType()).getElementType() ==
             (acc.hasKeys ? Combiner::keysLike(type) : type);
    };
    bool isAside = inLanes && !(acc.lanes && fits(acc.lanes));
    if (isAside)
      next = acc.combiner.reduceAcrossLanes(b, loc, next);
    Value memory = inLanes && !isAside ? acc.lanes : acc.single[0];
    Value old = memref::LoadOp::create(b, loc, memory, place);
    if (isa<VectorType>(old.getType()))
      next = emitter.broadcast(b, next);
    if (acc.hasKeys && memory == acc.lanes)
      next = arith::MaxSIOp::create(b, loc, old,
                                    acc.combiner.toKeys(b, loc, next));
    else
      next = acc.combiner.combine(b, loc, old, next);
    memref::StoreOp::create(b, loc, next, memory, place);
    return success();
  }
  SmallVector<Element> arguments, results;
  for (Value memory : acc.single)
    arguments.push_back(
        {memref::LoadOp::create(b, loc, memory), emitter.innermost()});
  llvm::append_range(arguments, inputs);
  if (failed(emitter.apply(acc.op.getBody().front(), arguments, results)))
    return failure();
  OpBuilder &e = emitter.at(emitter.innermost());
  for (auto [memory, value] : llvm::zip(acc.single, results))
    memref::StoreOp::create(e, loc, value.value, memory);
  return success();
}

/// Adds as many elements as lanes would take, each to its own sum.
LogicalResult KernelEmitter::ReduceGroup::accumulatePartialSums(
    SmallVectorImpl<AffineExpr> &loops) {
  AffineExpr first = emitter.pushLoop(0, extents.back() / apart * apart, apart);
  AffineExpr lane = emitter.pushLoop(0, apart);
  place = {emitter.asIndex(lane)};
  loops.push_back(first + lane);
  LogicalResult result = accumulate(loops, /*inLanes=*/true);
  loops.pop_back();
  place.clear();
  emitter.popLoop();
  emitter.popLoop();
  return result;
}

/// The innermost loop takes whole vectors first, then the remainder.
LogicalResult KernelEmitter::ReduceGroup::loop() {
  SmallVector<AffineExpr> loops;
  for (int64_t extent : ArrayRef(extents).drop_back(extents.empty() ? 0 : 1))
    loops.push_back(emitter.pushLoop(0, extent));
  auto part = [&](int64_t low, int64_t high, int64_t step) -> LogicalResult {
    if (low == high)
      return success();
    Spread spread = isShared ? Spread::Threads : Spread::None;
    loops.push_back(emitter.pushLoop(low, high, step, step > 1, spread));
    LogicalResult result = accumulate(loops, step > 1);
    emitter.popLoop();
    loops.pop_back();
    return result;
  };
  if (extents.empty()) {
    if (failed(accumulate(loops, false)))
      return failure();
  } else {
    int64_t step = std::max(width, apart);
    int64_t whole = step > 1 ? extents.back() / step * step : 0;
    if (failed(apart > 1 ? accumulatePartialSums(loops)
                         : part(0, whole, width)) ||
        failed(part(whole, extents.back(), 1)))
      return failure();
  }
  while (emitter.innermost() > level)
    emitter.popLoop();
  for (Value value : rowsToKeep)
    emitter.keptRows[value].isComplete = true;
  return success();
}

/// Combines all lanes, or the sums that replace them, in LLVM's order: the
/// upper half of a vector is added to the lower until one lane is left.
Value KernelEmitter::ReduceGroup::combineLanes(const Accumulator &acc,
                                               OpBuilder &b) const {
  if (apart == 1 && acc.hasKeys)
    return acc.combiner.fromKeys(
        b, loc,
        vector::ReductionOp::create(b, loc, vector::CombiningKind::MAXSI,
                                    memref::LoadOp::create(b, loc, acc.lanes)));
  if (apart == 1)
    return acc.combiner.reduceAcrossLanes(
        b, loc, memref::LoadOp::create(b, loc, acc.lanes));
  SmallVector<Value> sums;
  for (int64_t lane = 0; lane < apart; ++lane)
    sums.push_back(memref::LoadOp::create(b, loc, acc.lanes, placeOf(b, lane)));
  for (int64_t half = apart / 2; half > 0; half /= 2)
    for (int64_t lane = 0; lane < half; ++lane)
      if (acc.hasKeys)
        sums[lane] =
            arith::MaxSIOp::create(b, loc, sums[lane], sums[lane + half]);
      else
        sums[lane] =
            acc.combiner.combine(b, loc, sums[lane], sums[lane + half]);
  return acc.hasKeys ? acc.combiner.fromKeys(b, loc, sums.front())
                     : sums.front();
}

/// Loads the results and records them as known elements.
void KernelEmitter::ReduceGroup::finish() {
  Key key{nullptr, {}};
  for (AffineExpr expr : index)
    key.second.push_back(expr.getAsOpaquePointer());
  for (Accumulator &acc : accumulators) {
    for (auto [i, memory] : llvm::enumerate(acc.single)) {
      OpBuilder &b = emitter.at(level);
      Value value = memref::LoadOp::create(b, loc, memory);
      if (acc.lanes)
        value = acc.combiner.combine(b, loc, value, combineLanes(acc, b));
      if (isShared) {
        value = emitter.reduceAcrossThreads(level, acc.combiner.lanes(), value);
        value = acc.combiner.combine(emitter.at(level), loc, acc.start, value);
      }
      OpResult result = cast<OpResult>(acc.op.getResult(i));
      value = roundTo(emitter.at(level), loc, value,
                      getElementTypeOrSelf(result.getType()), emitter.machine);
      key.first = Value(result).getAsOpaquePointer();
      emitter.remember(key, {value, level});
    }
  }
}

LogicalResult KernelEmitter::emitReduceGroup(ArrayRef<stablehlo::ReduceOp> ops,
                                             const Index &index,
                                             unsigned level) {
  ReduceGroup group(*this, ops, index, level);
  if (failed(group.allocate()))
    return failure();
  llvm::SaveAndRestore<Operation *> inPass(pass, ops.front());
  if (failed(group.loop()))
    return failure();
  group.finish();
  return success();
}

//===----------------------------------------------------------------------===//
// Row reductions fused with the outputs
//===----------------------------------------------------------------------===//

/// One reduction, and the values that its group refers to.
struct KernelEmitter::RowReduction {
  stablehlo::ReduceOp op;
  Index index;
  ReduceGroup group;

  RowReduction(KernelEmitter &emitter, stablehlo::ReduceOp reduce,
               Index resultIndex)
      : op(reduce), index(std::move(resultIndex)),
        group(emitter, op, index, emitter.innermost()) {}
};

LogicalResult
KernelEmitter::openRowReductions(ArrayRef<stablehlo::ReduceOp> ops,
                                 AffineExpr row, int64_t lanes) {
  for (stablehlo::ReduceOp op : ops) {
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    auto made = std::make_shared<RowReduction>(
        *this, op, scope.delinearise(row, type.getShape()));
    made->group.width = grid ? 1 : lanes;
    made->group.isShared = grid.has_value();
    made->group.rowsToKeep.clear();
    if (failed(made->group.allocate()))
      return failure();
    rowReductions.push_back(std::move(made));
  }
  return success();
}

LogicalResult KernelEmitter::accumulateRowReductions(AffineExpr column) {
  bool inLanes = scope.dependsOnLanes(column);
  for (const std::shared_ptr<RowReduction> &reduction : rowReductions)
    if (failed(reduction->group.accumulate(column, inLanes)))
      return failure();
  return success();
}

void KernelEmitter::closeRowReductions() {
  for (const std::shared_ptr<RowReduction> &reduction : rowReductions)
    reduction->group.finish();
  rowReductions.clear();
}
