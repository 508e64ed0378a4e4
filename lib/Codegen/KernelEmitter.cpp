//===- KernelEmitter.cpp - Loops, loads and elements ----------------------===//

#include "KernelEmitter.h"

#include "scalify/Dialect/StableHLO/OpKinds.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

KernelEmitter::KernelEmitter(plan::KernelOp kernel, func::FuncOp function,
                             Machine machine)
    : machine(machine), scope(kernel.getContext()), kernel(kernel),
      function(function), maxLanes(lanesOf(kernel, machine)),
      maxSumLanes(machine == Machine::CPU ? 32 : maxLanes),
      builder(kernel.getContext()) {
  Block &entry = function.getBody().front();
  builder.setInsertionPointToEnd(&entry);
  Operation *ret = func::ReturnOp::create(builder, kernel.getLoc());
  levels.push_back({ret, nullptr, false, std::nullopt, 1, {}, {}});
  if (machine == Machine::GPU)
    openGrid();
  // The reductions that each op depends on.
  for (Operation &op : kernel.getBody().front()) {
    llvm::DenseSet<Operation *> set;
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp()) {
        auto &inner = reduceDependencies[def];
        set.insert(inner.begin(), inner.end());
        if (isa<stablehlo::ReduceOp>(def))
          set.insert(def);
      }
    reduceDependencies[&op] = std::move(set);
  }
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

OpBuilder &KernelEmitter::at(unsigned level) {
  builder.setInsertionPoint(levels[level].anchor);
  return builder;
}

OpBuilder &KernelEmitter::atEntry() {
  builder.setInsertionPointToStart(&function.getBody().front());
  return builder;
}

Value KernelEmitter::constantIndex(int64_t value) {
  return arith::ConstantIndexOp::create(atEntry(), kernel.getLoc(), value);
}

Type KernelEmitter::vectorOf(Type scalar) const {
  return VectorType::get({scope.lanes}, scalar);
}

Value KernelEmitter::broadcast(OpBuilder &b, Value value) {
  if (isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(
      b, kernel.getLoc(), cast<VectorType>(vectorOf(value.getType())), value);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

AffineExpr KernelEmitter::pushLoop(Value lower, Value upper, Interval range,
                                   int64_t step, bool isLanes, Spread spread) {
  Value stepValue = constantIndex(step);
  if (grid && spread != Spread::None)
    std::tie(lower, stepValue) = spreadOver(spread, lower, step);
  Level &outer = levels.back();
  builder.setInsertionPoint(outer.anchor);
  auto loop =
      scf::ForOp::create(builder, kernel.getLoc(), lower, upper, stepValue);
  Level level{loop.getBody()->getTerminator(),
              loop,
              outer.isSpread || (grid && (spread == Spread::Threads ||
                                          spread == Spread::Grid)),
              scope.laneDim,
              scope.lanes,
              {},
              {}};
  outer.anchor = loop;
  levels.push_back(level);
  int64_t alignment = range.low % step == 0 ? step : 1;
  AffineExpr dim =
      scope.addDim({range, loop.getInductionVar(), innermost(), alignment});
  if (isLanes) {
    scope.laneDim = cast<AffineDimExpr>(dim).getPosition();
    scope.lanes = step;
  }
  return dim;
}

AffineExpr KernelEmitter::pushLoop(int64_t lower, int64_t upper, int64_t step,
                                   bool isLanes, Spread spread) {
  return pushLoop(constantIndex(lower), constantIndex(upper),
                  {lower, upper - 1}, step, isLanes, spread);
}

void KernelEmitter::popLoop() {
  Level level = levels.pop_back_val();
  for (auto &key : level.keys)
    elements.erase(key);
  for (const void *expr : level.exprs) {
    indices.erase(AffineExpr::getFromOpaquePointer(expr));
    indexVectors.erase(AffineExpr::getFromOpaquePointer(expr));
  }
  scope.laneDim = level.outerLaneDim;
  scope.lanes = level.outerLanes;
  // Later operations of the outer level go after this loop.
  levels.back().anchor = level.loop->getNextNode();
}

LogicalResult KernelEmitter::atLevel(unsigned level,
                                     llvm::function_ref<LogicalResult()> body) {
  SmallVector<Level> hidden;
  auto laneDim = scope.laneDim;
  int64_t lanes = scope.lanes;
  Operation *anchor = levels[level].anchor;
  while (innermost() > level) {
    hidden.push_back(levels.pop_back_val());
    scope.laneDim = hidden.back().outerLaneDim;
    scope.lanes = hidden.back().outerLanes;
  }
  LogicalResult result = body();
  levels[level].anchor = anchor;
  while (!hidden.empty())
    levels.push_back(hidden.pop_back_val());
  scope.laneDim = laneDim;
  scope.lanes = lanes;
  return result;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

// Loads lane by lane, for lanes that are not contiguous.
Value KernelEmitter::loadLanes(OpBuilder &b, Value memory, AffineExpr linear,
                               Type type) {
  Value lanes = asIndexVector(linear);
  Location loc = kernel.getLoc();
  OpBuilder &at = this->at(scope.level(linear));
  SmallVector<Value> values;
  for (int64_t i = 0; i < scope.lanes; ++i) {
    Value index = vector::ExtractOp::create(at, loc, lanes, i);
    values.push_back(memref::LoadOp::create(at, loc, memory, index));
  }
  return vector::FromElementsOp::create(
      at, loc, cast<VectorType>(vectorOf(type)), values);
}

FailureOr<Element> KernelEmitter::load(unsigned argument, AffineExpr linear,
                                       Type elementType) {
  if (log)
    log->accesses.push_back(linear);
  Value memory = function.getArgument(argument);
  Location loc = kernel.getLoc();
  Type stored = cast<MemRefType>(memory.getType()).getElementType();
  unsigned level = scope.level(linear);
  Value value;
  if (!scope.dependsOnLanes(linear)) {
    Value index = asIndex(linear);
    value = memref::LoadOp::create(at(level), loc, memory, index);
  } else if (scope.laneStride(linear) == 1) {
    Value index = asIndex(linear);
    auto load = vector::LoadOp::create(
        at(level), loc, cast<VectorType>(vectorOf(stored)), memory, index);
    if (IntegerAttr alignment = vectorAlignment(linear, stored))
      load.setAlignmentAttr(alignment);
    value = load;
  } else {
    value = loadLanes(builder, memory, linear, stored);
  }
  recordAccess(argument, linear, value.getDefiningOp());
  return Element{toRegister(at(level), loc, value, elementType, machine),
                 level};
}

LogicalResult KernelEmitter::store(unsigned write, Element element,
                                   AffineExpr linear, Type type) {
  if (log)
    log->accesses.push_back(linear);
  unsigned argument = kernel.getReads().size() + write;
  Value memory = function.getArgument(argument);
  Location loc = kernel.getLoc();
  unsigned level = innermost();
  if (!scope.dependsOnLanes(linear)) {
    Value index = asIndex(linear);
    OpBuilder &b = at(level);
    Value value = toStorage(b, loc, element.value, type, machine);
    recordAccess(argument, linear,
                 memref::StoreOp::create(getStoreBuilder(level), loc, value,
                                         memory, index));
    return success();
  }
  bool contiguous = scope.laneStride(linear) == 1;
  Value index = contiguous ? asIndex(linear) : asIndexVector(linear);
  OpBuilder &b = at(level);
  Value value = toStorage(b, loc, broadcast(b, element.value), type, machine);
  if (contiguous) {
    auto store = vector::StoreOp::create(b, loc, value, memory, index);
    Type stored = cast<MemRefType>(memory.getType()).getElementType();
    if (IntegerAttr alignment = vectorAlignment(linear, stored))
      store.setAlignmentAttr(alignment);
    recordAccess(argument, linear, store);
    return success();
  }
  for (int64_t i = 0; i < scope.lanes; ++i) {
    Value lane = vector::ExtractOp::create(b, loc, value, i);
    Value place = vector::ExtractOp::create(b, loc, index, i);
    auto store = memref::StoreOp::create(b, loc, lane, memory, place);
    if (i == 0)
      recordAccess(argument, linear, store);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

void KernelEmitter::remember(const Key &key, Element element) {
  elements[key] = element;
  levels[element.level].keys.push_back(key);
}

FailureOr<Element> KernelEmitter::element(Value value, const Index &index) {
  Key key{value.getAsOpaquePointer(), {}};
  for (AffineExpr expr : index)
    key.second.push_back(expr.getAsOpaquePointer());
  auto known = elements.find(key);
  if (known != elements.end())
    return known->second;
  FailureOr<Element> result = kept(value, index);
  if (failed(result))
    result = staged(value, index);
  if (failed(result))
    result = compute(value, index);
  if (succeeded(result) && !elements.count(key))
    remember(key, *result);
  return result;
}

FailureOr<Element> KernelEmitter::compute(Value value, const Index &index) {
  auto type = cast<RankedTensorType>(value.getType());
  if (auto argument = dyn_cast<BlockArgument>(value))
    return load(argument.getArgNumber(),
                scope.linearise(index, type.getShape()), type.getElementType());
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast<stablehlo::ConstantOp>(op)) {
    auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
    if (!splat)
      return op->emitOpError("in a kernel must be a splat");
    OpBuilder &b = at(0);
    Type element = type.getElementType();
    Type reg = registerType(element);
    if (auto number = dyn_cast<FloatAttr>(splat.getSplatValue<Attribute>())) {
      if (reg.isInteger(8))
        return Element{
            constantLike(b, op->getLoc(), reg,
                         number.getValue().bitcastToAPInt().getSExtValue()),
            0};
      APFloat wide = number.getValue();
      bool lost;
      wide.convert(cast<FloatType>(reg).getFloatSemantics(),
                   APFloat::rmNearestTiesToEven, &lost);
      return Element{
          arith::ConstantOp::create(b, op->getLoc(), FloatAttr::get(reg, wide)),
          0};
    }
    return Element{constantLike(b, op->getLoc(), reg,
                                splat.getSplatValue<APInt>().getSExtValue()),
                   0};
  }
  if (auto reduce = dyn_cast<stablehlo::ReduceOp>(op))
    return elementOfReduce(reduce, cast<OpResult>(value).getResultNumber(),
                           index);
  if (auto cast = dyn_cast<QuantizeOp>(op))
    return quantize(cast, index);
  if (auto cast = dyn_cast<DequantizeOp>(op)) {
    FailureOr<Element> code = element(cast.getData(), index);
    FailureOr<Element> scale = element(cast.getScale(), {});
    if (failed(code) || failed(scale))
      return failure();
    unsigned level = std::max(code->level, scale->level);
    OpBuilder &b = at(level);
    Value wide = code->number;
    if (!wide)
      wide = decodeNarrow(b, op->getLoc(), code->value,
                          cast.getData().getType().getElementType(), machine);
    Value factor = scale->value;
    if (isa<VectorType>(wide.getType()))
      factor = broadcast(b, factor);
    Value product = arith::MulFOp::create(b, op->getLoc(), wide, factor);
    return Element{
        roundTo(b, op->getLoc(), product, type.getElementType(), machine),
        level};
  }
  if (auto random = dyn_cast<RandomBitsOp>(op))
    return randomBits(random, index);
  if (isElementwiseOp(op))
    return elementwise(op, index);
  return indexing(op, index);
}

/// True if an op widens FP8 to a float that registers hold as F32.
static bool isExactConvert(Operation *op) {
  Type to = getElementTypeOrSelf(op->getResult(0).getType());
  return isa<stablehlo::ConvertOp>(op) &&
         (to.isF32() || to.isBF16() || to.isF16());
}

FailureOr<Element> KernelEmitter::elementwise(Operation *op,
                                              const Index &index) {
  SmallVector<Value> values;
  unsigned level = 0;
  bool isVector = false;
  for (Value operand : op->getOperands()) {
    // The predicate of a select and the bounds of a clamp may be scalars.
    bool isScalar = cast<RankedTensorType>(operand.getType()).getRank() == 0;
    FailureOr<Element> e = element(operand, isScalar ? Index() : index);
    if (failed(e))
      return failure();
    level = std::max(level, e->level);
    isVector |= isa<VectorType>(e->value.getType());
    if (e->number && isExactConvert(op))
      return Element{e->number, e->level};
    values.push_back(e->value);
  }
  OpBuilder &b = at(level);
  if (isVector) {
    bool scalarChoice =
        isa<stablehlo::SelectOp>(op) && !isa<VectorType>(values[0].getType());
    for (Value &value : MutableArrayRef(values).drop_front(scalarChoice))
      value = broadcast(b, value);
  }
  FailureOr<Value> result = emitElementwise(b, op, values, machine);
  if (failed(result))
    return op->emitOpError("not in the CPU target for these types");
  return Element{*result, level};
}

// Counts in an i64, which LLVM keeps in a register, and which is added to the
// task's slots after the rows. A population count leaves the vector units, the
// limit of most casts, to the cast.
FailureOr<Element> KernelEmitter::quantize(QuantizeOp op, const Index &index) {
  FailureOr<Element> x = element(op.getValue(), index);
  FailureOr<Element> scale = element(op.getScale(), {});
  if (failed(x) || failed(scale))
    return failure();
  Location loc = op.getLoc();
  unsigned level = std::max(x->level, scale->level);
  bool isExact = op->hasAttr(plan::kExactReciprocalAttr);
  Value factor = scale->value;
  if (isExact) {
    OpBuilder &b = at(scale->level);
    factor = arith::DivFOp::create(
        b, loc, constantLike(b, loc, factor.getType(), 1.0), factor);
  }
  OpBuilder &b = at(level);
  if (isa<VectorType>(x->value.getType()))
    factor = broadcast(b, factor);
  Value scaled;
  if (isExact)
    scaled = arith::MulFOp::create(b, loc, x->value, factor);
  else
    scaled = arith::DivFOp::create(b, loc, x->value, factor);
  QuantizeResult q = quantizeNarrow(
      b, loc, scaled, op.getResult().getType().getElementType(), machine);
  if (log || op->hasAttr(plan::kUncountedCastAttr))
    return Element{q.code, level, q.number};
  CastCounters &counters =
      quantizeCounters.try_emplace(op, CastCounters{pass, {}, {}})
          .first->second;
  if (counters.pass != pass)
    return Element{q.code, level, q.number};
  if (scale->level == 0 && !op->hasAttr(plan::kScaledAttr))
    counters.scale = scale->value;
  auto count = [&](Value &memory, Value counted) {
    Element where{counted, level};
    for (Element guard : guards)
      where = both(where, guard);
    Value flags = where.value;
    unsigned level = where.level;
    if (grid)
      return countOnGrid(level, memory, flags);
    Type type = builder.getI64Type();
    if (!memory) {
      OpBuilder &e = atEntry();
      memory = memref::AllocaOp::create(e, loc, MemRefType::get({}, type));
      Value zero = constantLike(e, loc, type, int64_t(0));
      zero.getDefiningOp()->moveBefore(memory.getDefiningOp());
      builder.setInsertionPointAfter(memory.getDefiningOp());
      memref::StoreOp::create(builder, loc, zero, memory);
    }
    OpBuilder &b = at(level);
    Value sum = memref::LoadOp::create(b, loc, memory);
    if (auto vector = dyn_cast<VectorType>(flags.getType())) {
      Type mask = b.getIntegerType(vector.getDimSize(0));
      flags =
          vector::BitCastOp::create(b, loc, VectorType::get({1}, mask), flags);
      flags = vector::ExtractOp::create(b, loc, flags, int64_t(0));
      flags = math::CtPopOp::create(b, loc, flags);
    }
    Value ones = flags.getType() == type
                     ? flags
                     : arith::ExtUIOp::create(b, loc, type, flags);
    memref::StoreOp::create(b, loc, arith::AddIOp::create(b, loc, sum, ones),
                            memory);
  };
  for (auto [place, flags] : llvm::zip(counters.places, q.counts()))
    count(place, flags);
  return Element{q.code, level, q.number};
}

// Counts are summed over iterations and ranks, and so is the scale's word: the
// bits from 40 up count the scales, the lower ones sum the upper bits of their
// F32 patterns. Only the first task, or the first thread of the grid, adds a
// scale.
void KernelEmitter::addScale(Value scale, int64_t slot) {
  Location loc = kernel.getLoc();
  Value slots = function.getArguments().back(), place = constantIndex(slot);
  Value isFirst = grid ? isCounted(0) : Value();
  if (!isFirst) {
    unsigned first = kernel.getReads().size() + kernel.getWrites().size();
    OpBuilder &b = at(0);
    Value zero = constantLike(b, loc, b.getIndexType(), int64_t(0));
    isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                    function.getArgument(first), zero);
  }
  auto branch = scf::IfOp::create(at(0), loc, isFirst);
  builder.setInsertionPoint(branch.thenYield());
  auto i64 = builder.getI64Type();
  auto constant = [&](int64_t value) {
    return constantLike(builder, loc, i64, value);
  };
  Value bits =
      arith::BitcastOp::create(builder, loc, builder.getI32Type(), scale);
  bits = arith::ExtUIOp::create(builder, loc, i64, bits);
  bits = arith::ShRUIOp::create(builder, loc, bits,
                                constant(QuantizeResult::kScaleShift));
  Value word = arith::OrIOp::create(builder, loc, bits,
                                    constant(QuantizeResult::kOneScale));
  Value old = memref::LoadOp::create(builder, loc, slots, place);
  memref::StoreOp::create(builder, loc,
                          arith::AddIOp::create(builder, loc, old, word), slots,
                          place);
}

// Adds the counts to the task's slots.
LogicalResult KernelEmitter::finish() {
  Location loc = kernel.getLoc();
  Value slots = function.getArguments().back();
  int64_t slot = 0;
  kernel.getBody().walk([&](QuantizeOp op) {
    if (op->hasAttr(plan::kUncountedCastAttr))
      return;
    CastCounters counters = quantizeCounters.lookup(op);
    for (Value memory : counters.places) {
      int64_t position = slot++;
      if (!memory)
        continue;
      if (grid) {
        addCountOfGrid(memory, position);
        continue;
      }
      Value sum = memref::LoadOp::create(at(0), loc, memory);
      Value place = constantIndex(position);
      OpBuilder &e = at(0);
      Value old = memref::LoadOp::create(e, loc, slots, place);
      memref::StoreOp::create(e, loc, arith::AddIOp::create(e, loc, old, sum),
                              slots, place);
    }
    int64_t position = slot++;
    if (counters.scale)
      addScale(counters.scale, position);
  });
  return success();
}
