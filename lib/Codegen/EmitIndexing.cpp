//===- EmitIndexing.cpp - Ops that only change the index ------------------===//
//
// An element of the result is an element of an operand at another index. The
// index is affine for static ops; a start known only at run time is a symbol.
// An index outside an operand (of a pad, of a part of a concatenation) is never
// read: it is clamped and the value is not used.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"

#include "scalify/Dialect/StableHLO/Integers.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

//===----------------------------------------------------------------------===//
// Conditions on indices
//===----------------------------------------------------------------------===//

std::optional<bool> KernelEmitter::within(AffineExpr expr, int64_t low,
                                          int64_t high) {
  Interval range = scope.range(expr);
  if (range.low >= low && range.high < high)
    return true;
  if (range.high < low || range.low >= high)
    return false;
  if (log) {
    log->accesses.push_back(expr);
    log->boundaries.push_back({expr, low});
    log->boundaries.push_back({expr, high});
  }
  return std::nullopt;
}

Element KernelEmitter::withinAtRunTime(AffineExpr expr, int64_t low,
                                       int64_t high) {
  bool perLane = scope.dependsOnLanes(expr);
  Value index = perLane ? asIndexVector(expr) : asIndex(expr);
  unsigned level = scope.level(expr);
  OpBuilder &b = at(level);
  Location loc = kernel.getLoc();
  // A single comparison: an index below `low` wraps around to a large number.
  Value shifted = arith::SubIOp::create(
      b, loc, index, constantLike(b, loc, index.getType(), low));
  Value inside =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, shifted,
                            constantLike(b, loc, index.getType(), high - low));
  return {inside, level};
}

AffineExpr KernelEmitter::clampExpr(AffineExpr expr, int64_t low,
                                    int64_t high) {
  Interval range = scope.range(expr);
  if (range.low >= low && range.high <= high)
    return expr;
  bool perLane = scope.dependsOnLanes(expr);
  Value index = perLane ? asIndexVector(expr) : asIndex(expr);
  unsigned level = scope.level(expr);
  OpBuilder &b = at(level);
  Location loc = kernel.getLoc();
  index = arith::MaxSIOp::create(b, loc, index,
                                 constantLike(b, loc, index.getType(), low));
  index = arith::MinSIOp::create(b, loc, index,
                                 constantLike(b, loc, index.getType(), high));
  return scope.addSymbol({{low, high}, index, level});
}

Element KernelEmitter::select(Element condition, Element onTrue,
                              Element onFalse) {
  unsigned level = std::max({condition.level, onTrue.level, onFalse.level});
  OpBuilder &b = at(level);
  bool isVector = isa<VectorType>(onTrue.value.getType()) ||
                  isa<VectorType>(onFalse.value.getType()) ||
                  isa<VectorType>(condition.value.getType());
  if (isVector) {
    onTrue.value = broadcast(b, onTrue.value);
    onFalse.value = broadcast(b, onFalse.value);
  }
  return {arith::SelectOp::create(b, kernel.getLoc(), condition.value,
                                  onTrue.value, onFalse.value),
          level};
}

Element KernelEmitter::both(Element a, Element b) {
  unsigned level = std::max(a.level, b.level);
  OpBuilder &builder = at(level);
  if (isa<VectorType>(a.value.getType()) ||
      isa<VectorType>(b.value.getType())) {
    a.value = broadcast(builder, a.value);
    b.value = broadcast(builder, b.value);
  }
  return {arith::AndIOp::create(builder, kernel.getLoc(), a.value, b.value),
          level};
}

/// Computes an element at a clamped index. Only where the conditions hold is
/// the value used, and are its casts counted.
FailureOr<Element> KernelEmitter::guardedElement(ArrayRef<Element> conditions,
                                                 Value value,
                                                 const Index &index) {
  size_t outer = guards.size();
  llvm::append_range(guards, conditions);
  FailureOr<Element> result = element(value, index);
  guards.truncate(outer);
  return result;
}

//===----------------------------------------------------------------------===//
// Static ops
//===----------------------------------------------------------------------===//

FailureOr<Element> KernelEmitter::indexing(Operation *op, const Index &index) {
  return TypeSwitch<Operation *, FailureOr<Element>>(op)
      .Case([&](stablehlo::BroadcastInDimOp o) {
        Index inner;
        for (auto [dim, extent] :
             llvm::zip(o.getBroadcastDimensions(), shapeOf(o.getOperand())))
          inner.push_back(extent == 1 ? scope.constant(0) : index[dim]);
        return element(o.getOperand(), inner);
      })
      .Case([&](stablehlo::ReshapeOp o) {
        AffineExpr linear = scope.linearise(index, shapeOf(o.getResult()));
        return element(o.getOperand(),
                       scope.delinearise(linear, shapeOf(o.getOperand())));
      })
      .Case([&](stablehlo::TransposeOp o) {
        Index inner(index.size());
        for (auto [i, source] : llvm::enumerate(o.getPermutation()))
          inner[source] = index[i];
        return element(o.getOperand(), inner);
      })
      .Case([&](stablehlo::SliceOp o) {
        Index inner;
        for (size_t i = 0; i < index.size(); ++i)
          inner.push_back(index[i] * o.getStrides()[i] +
                          o.getStartIndices()[i]);
        return element(o.getOperand(), inner);
      })
      .Case([&](plan::WindowsOp o) {
        size_t rank = shapeOf(o.getOperand()).size();
        Index inner(index.begin(), index.begin() + rank);
        for (auto [i, dim] : llvm::enumerate(o.getDims()))
          inner[dim] = index[dim] * o.getStrides()[i] +
                       index[rank + i] * o.getDilations()[i];
        return element(o.getOperand(), inner);
      })
      .Case([&](stablehlo::ReverseOp o) {
        Index inner(index);
        for (int64_t dim : o.getDimensions())
          inner[dim] = index[dim] * -1 + (shapeOf(o.getOperand())[dim] - 1);
        return element(o.getOperand(), inner);
      })
      .Case([&](stablehlo::IotaOp o) -> FailureOr<Element> {
        return asElement(
            index[o.getIotaDimension()],
            cast<RankedTensorType>(o.getOutput().getType()).getElementType());
      })
      .Case([&](stablehlo::OptimizationBarrierOp o) -> FailureOr<Element> {
        return o.emitOpError("must not be in a kernel");
      })
      .Case([&](stablehlo::ConcatenateOp o) { return concatenate(o, index); })
      .Case([&](stablehlo::PadOp o) { return pad(o, index); })
      .Case([&](stablehlo::GatherOp o) { return gather(o, index); })
      .Case([&](stablehlo::DynamicSliceOp o) { return dynamicSlice(o, index); })
      .Case([&](stablehlo::DynamicUpdateSliceOp o) {
        return dynamicUpdate(o, index);
      })
      .Default([](Operation *o) -> FailureOr<Element> {
        return o->emitOpError("not in the CPU target");
      });
}

FailureOr<Element> KernelEmitter::concatenate(stablehlo::ConcatenateOp op,
                                              const Index &index) {
  int64_t dim = op.getDimension(), begin = 0;
  std::optional<Element> result;
  for (Value part : op.getInputs()) {
    int64_t extent = shapeOf(part)[dim], end = begin + extent;
    std::optional<bool> inside = within(index[dim], begin, end);
    if (inside != false) {
      Index inner(index);
      AffineExpr local = index[dim] - begin;
      inner[dim] = inside ? local : clampExpr(local, 0, extent - 1);
      SmallVector<Element, 1> conditions;
      if (!inside)
        conditions.push_back(withinAtRunTime(index[dim], begin, end));
      FailureOr<Element> e = guardedElement(conditions, part, inner);
      if (failed(e))
        return failure();
      result = result && !inside ? select(conditions[0], *e, *result) : *e;
    }
    begin = end;
  }
  return *result;
}

FailureOr<Element> KernelEmitter::pad(stablehlo::PadOp op, const Index &index) {
  FailureOr<Element> padding = element(op.getPaddingValue(), {});
  if (failed(padding))
    return failure();
  Index inner;
  SmallVector<Element> conditions;
  for (auto [i, extent] : llvm::enumerate(shapeOf(op.getOperand()))) {
    int64_t low = op.getEdgePaddingLow()[i];
    int64_t step = op.getInteriorPadding()[i] + 1;
    AffineExpr local = index[i] - low;
    int64_t span = (extent - 1) * step + 1;
    if (extent == 0)
      return *padding;
    std::optional<bool> inside = within(local, 0, span);
    if (inside == false)
      return *padding;
    if (!inside)
      conditions.push_back(withinAtRunTime(local, 0, span));
    AffineExpr safe = inside ? local : clampExpr(local, 0, span - 1);
    if (step > 1) {
      AffineExpr rest = scope.mod(safe, step);
      std::optional<bool> hit = within(rest, 0, 1);
      if (hit == false)
        return *padding;
      if (!hit)
        conditions.push_back(withinAtRunTime(rest, 0, 1));
      safe = scope.floorDiv(safe, step);
    }
    inner.push_back(safe);
  }
  FailureOr<Element> value = guardedElement(conditions, op.getOperand(), inner);
  if (failed(value))
    return failure();
  Element result = *value;
  for (Element condition : conditions)
    result = select(condition, result, *padding);
  return result;
}

//===----------------------------------------------------------------------===//
// Start indices known at run time
//===----------------------------------------------------------------------===//

// Returns the integer `value` at `index` as a symbol, clamped to [0, limit].
FailureOr<AffineExpr> KernelEmitter::startIndex(Value value, const Index &index,
                                                int64_t limit) {
  if (limit == 0)
    return scope.constant(0);
  FailureOr<Element> e = element(value, index);
  if (failed(e))
    return failure();
  OpBuilder &b = at(e->level);
  Location loc = kernel.getLoc();
  Type element = getElementTypeOrSelf(value.getType());
  Value start = toIndex(b, loc, e->value, element);
  auto c = [&](int64_t x) { return constantLike(b, loc, start.getType(), x); };
  if (!stablehlo::hasUnsignedElements(element))
    start = arith::MaxSIOp::create(b, loc, start, c(0));
  start = arith::MinUIOp::create(b, loc, start, c(limit));
  if (log)
    for (AffineExpr expr : index)
      log->accesses.push_back(expr);
  return scope.addSymbol({{0, limit}, start, e->level});
}

FailureOr<Element> KernelEmitter::dynamicSlice(stablehlo::DynamicSliceOp op,
                                               const Index &index) {
  Index inner;
  for (auto [i, start] : llvm::enumerate(op.getStartIndices())) {
    FailureOr<AffineExpr> symbol = startIndex(
        start, {}, shapeOf(op.getOperand())[i] - op.getSliceSizes()[i]);
    if (failed(symbol))
      return failure();
    inner.push_back(index[i] + *symbol);
  }
  return element(op.getOperand(), inner);
}

FailureOr<Element>
KernelEmitter::dynamicUpdate(stablehlo::DynamicUpdateSliceOp op,
                             const Index &index) {
  Index inner;
  SmallVector<Element> conditions;
  for (auto [i, start] : llvm::enumerate(op.getStartIndices())) {
    int64_t extent = shapeOf(op.getUpdate())[i];
    FailureOr<AffineExpr> symbol =
        startIndex(start, {}, shapeOf(op.getOperand())[i] - extent);
    if (failed(symbol))
      return failure();
    AffineExpr local = index[i] - *symbol;
    std::optional<bool> inside = within(local, 0, extent);
    if (!inside)
      conditions.push_back(withinAtRunTime(local, 0, extent));
    inner.push_back(clampExpr(local, 0, extent - 1));
  }
  FailureOr<Element> updated =
      guardedElement(conditions, op.getUpdate(), inner);
  FailureOr<Element> kept = element(op.getOperand(), index);
  if (failed(updated) || failed(kept))
    return failure();
  if (conditions.empty())
    return *updated;
  Element inside = conditions[0];
  for (Element condition : ArrayRef(conditions).drop_front())
    inside = both(inside, condition);
  return select(inside, *updated, *kept);
}

FailureOr<Element> KernelEmitter::gather(stablehlo::GatherOp op,
                                         const Index &index) {
  auto numbers = op.getDimensionNumbers();
  ArrayRef<int64_t> operandShape = shapeOf(op.getOperand());
  ArrayRef<int64_t> indexShape = shapeOf(op.getStartIndices());
  int64_t vectorDim = numbers.getIndexVectorDim();
  auto contains = [](ArrayRef<int64_t> list, int64_t x) {
    return llvm::is_contained(list, x);
  };
  // Result dimensions that are not offsets index the start indices.
  Index batch, offsets;
  for (size_t i = 0; i < index.size(); ++i)
    (contains(numbers.getOffsetDims(), i) ? offsets : batch)
        .push_back(index[i]);
  Index inner(operandShape.size());
  size_t nextOffset = 0;
  for (size_t d = 0; d < operandShape.size(); ++d) {
    bool isImplicit = contains(numbers.getCollapsedSliceDims(), d) ||
                      contains(numbers.getOperandBatchingDims(), d);
    inner[d] = isImplicit ? scope.constant(0) : offsets[nextOffset++];
  }
  for (auto [k, d] : llvm::enumerate(numbers.getStartIndexMap())) {
    Index place;
    size_t nextBatch = 0;
    for (size_t i = 0; i < indexShape.size(); ++i)
      place.push_back(int64_t(i) == vectorDim ? scope.constant(k)
                                              : batch[nextBatch++]);
    FailureOr<AffineExpr> start = startIndex(
        op.getStartIndices(), place, operandShape[d] - op.getSliceSizes()[d]);
    if (failed(start))
      return failure();
    inner[d] = inner[d] + *start;
  }
  for (auto [operandDim, indexDim] :
       llvm::zip(numbers.getOperandBatchingDims(),
                 numbers.getStartIndicesBatchingDims()))
    inner[operandDim] = batch[indexDim > vectorDim ? indexDim - 1 : indexDim];
  return element(op.getOperand(), inner);
}
