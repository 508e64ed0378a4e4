//===- EmitScatter.cpp - Scatters with indices known at run time ----------===//

#include "KernelEmitter.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

/// On a GPU: the most parts into which a result's windows are split. Each part
/// reads all indices, so more parts would cost more than they gain.
static constexpr int64_t kMaxParts = 256;

/// Loops over the updates outside, over the window inside. On a grid each block
/// owns a part of the windows and applies their updates in order.
struct KernelEmitter::Scatter {
  KernelEmitter &emitter;
  stablehlo::ScatterOp op;
  stablehlo::ScatterDimensionNumbersAttr numbers;
  Location loc;
  RankedTensorType updateType, resultType;
  Index update, places;
  unsigned placeLevel = 0;
  SmallVector<int64_t> windowDims; // of the result
  SmallVector<int64_t> strides;    // of the result
  Value inside;                    // i1: the window fits; null if always
  int64_t parts = 1;
  AffineExpr part; // index of this part; null for a single one

  Scatter(KernelEmitter &emitter, stablehlo::ScatterOp op);
  void openPlaces();
  int64_t windowElements() const;
  void selectPart(AffineExpr offset);
  FailureOr<SmallVector<Value>> starts();
  AffineExpr offsetOf(ArrayRef<Value> starts);
  LogicalResult emitWindow(AffineExpr offset);

private:
  Value bound(int64_t extent);
  LogicalResult combine(AffineExpr linear);
  LogicalResult emitPoint(AffineExpr linear);
  FailureOr<Value> start(size_t component);
};

KernelEmitter::Scatter::Scatter(KernelEmitter &emitter, stablehlo::ScatterOp op)
    : emitter(emitter), op(op), numbers(op.getScatterDimensionNumbers()),
      loc(op.getLoc()),
      updateType(cast<RankedTensorType>(op.getUpdates()[0].getType())),
      resultType(cast<RankedTensorType>(op.getResult(0).getType())),
      update(updateType.getRank()), strides(resultType.getRank(), 1) {
  for (int64_t d = 0; d < resultType.getRank(); ++d)
    if (!llvm::is_contained(numbers.getInsertedWindowDims(), d) &&
        !llvm::is_contained(numbers.getInputBatchingDims(), d))
      windowDims.push_back(d);
  for (int64_t d = resultType.getRank() - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * resultType.getDimSize(d + 1);
}

/// Returns the elements of a window, if windows are either identical or
/// disjoint and a thread has the same elements of each; otherwise 0.
int64_t KernelEmitter::Scatter::windowElements() const {
  int64_t elements = 1;
  for (int64_t d : windowDims) {
    if (llvm::is_contained(numbers.getScatterDimsToOperandDims(), d))
      return 0;
    elements *= resultType.getDimSize(d);
  }
  // The window dimensions come last.
  int64_t first = resultType.getRank() - int64_t(windowDims.size());
  return windowDims.empty() || windowDims.front() == first ? elements : 0;
}

void KernelEmitter::Scatter::openPlaces() {
  int64_t elements = emitter.grid ? windowElements() : 0;
  if (elements > 0)
    parts = std::clamp<int64_t>(resultType.getNumElements() / elements, 1,
                                kMaxParts);
  if (parts > 1)
    part = emitter.pushLoop(0, parts, 1, false, Spread::Blocks);
  for (int64_t d = 0; d < updateType.getRank(); ++d)
    if (!llvm::is_contained(numbers.getUpdateWindowDims(), d)) {
      update[d] = emitter.pushLoop(0, updateType.getDimSize(d));
      places.push_back(update[d]);
    }
  placeLevel = emitter.innermost();
}

/// Returns one component of the index vector of the current update.
FailureOr<Value> KernelEmitter::Scatter::start(size_t component) {
  Index place;
  size_t next = 0;
  auto type = cast<RankedTensorType>(op.getScatterIndices().getType());
  for (int64_t i = 0; i < type.getRank(); ++i)
    place.push_back(i == numbers.getIndexVectorDim()
                        ? emitter.scope.constant(component)
                        : places[next++]);
  FailureOr<Element> e = emitter.element(op.getScatterIndices(), place);
  if (failed(e))
    return failure();
  return toIndex(emitter.at(placeLevel), loc, e->value, type.getElementType());
}

/// Returns the window's start in the result, by dimension; null for 0.
FailureOr<SmallVector<Value>> KernelEmitter::Scatter::starts() {
  SmallVector<Value> starts(resultType.getRank());
  SmallVector<int64_t> extents(resultType.getRank(), 1);
  for (auto [window, d] : llvm::zip(numbers.getUpdateWindowDims(), windowDims))
    extents[d] = updateType.getDimSize(window);
  for (auto [k, d] : llvm::enumerate(numbers.getScatterDimsToOperandDims())) {
    FailureOr<Value> found = start(k);
    if (failed(found))
      return failure();
    OpBuilder &b = emitter.at(placeLevel);
    int64_t room = resultType.getDimSize(d) - extents[d] + 1;
    Value fits =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, *found,
                              constantLike(b, loc, b.getIndexType(), room));
    inside = inside ? Value(arith::AndIOp::create(b, loc, inside, fits)) : fits;
    starts[d] = *found;
  }
  int64_t vectorDim = numbers.getIndexVectorDim();
  for (auto [d, indexDim] : llvm::zip(numbers.getInputBatchingDims(),
                                      numbers.getScatterIndicesBatchingDims()))
    starts[d] =
        emitter.asIndex(places[indexDim > vectorDim ? indexDim - 1 : indexDim]);
  return starts;
}

AffineExpr KernelEmitter::Scatter::offsetOf(ArrayRef<Value> starts) {
  OpBuilder &b = emitter.at(placeLevel);
  Value base = constantLike(b, loc, b.getIndexType(), int64_t(0));
  for (auto [start, stride] : llvm::zip(starts, strides))
    if (start)
      base = arith::AddIOp::create(
          b, loc, base,
          arith::MulIOp::create(
              b, loc, start, constantLike(b, loc, b.getIndexType(), stride)));
  return emitter.scope.addSymbol(
      {{0, resultType.getNumElements()}, base, placeLevel});
}

/// Windows of other parts are treated like windows that do not fit.
void KernelEmitter::Scatter::selectPart(AffineExpr offset) {
  if (!part)
    return;
  Value window = emitter.asIndex(offset.floorDiv(windowElements()) % parts);
  Value mine = emitter.asIndex(part);
  OpBuilder &b = emitter.at(placeLevel);
  Value isMine =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, window, mine);
  inside =
      inside ? Value(arith::AndIOp::create(b, loc, inside, isMine)) : isMine;
}

/// A window that does not fit has no iterations.
Value KernelEmitter::Scatter::bound(int64_t extent) {
  OpBuilder &b = emitter.at(placeLevel);
  Value all = constantLike(b, loc, b.getIndexType(), extent);
  if (!inside)
    return all;
  return arith::SelectOp::create(
      b, loc, inside, all, constantLike(b, loc, b.getIndexType(), int64_t(0)));
}

LogicalResult KernelEmitter::Scatter::combine(AffineExpr linear) {
  FailureOr<Element> value = emitter.element(op.getUpdates()[0], update);
  if (failed(value))
    return failure();
  Value memory = emitter.function.getArgument(emitter.kernel.getReads().size());
  Value place = emitter.asIndex(linear);
  OpBuilder &b = emitter.at(emitter.innermost());
  bool isVector = emitter.scope.dependsOnLanes(linear);
  Type stored = cast<MemRefType>(memory.getType()).getElementType();
  Value old = isVector ? Value(vector::LoadOp::create(
                             b, loc, cast<VectorType>(emitter.vectorOf(stored)),
                             memory, place))
                       : Value(memref::LoadOp::create(b, loc, memory, place));
  old = toRegister(b, loc, old, resultType.getElementType(), emitter.machine);
  SmallVector<Element> results;
  Element now = *value;
  if (isVector)
    now.value = emitter.broadcast(b, now.value);
  if (failed(emitter.apply(op.getUpdateComputation().front(),
                           {{old, emitter.innermost()}, now}, results)))
    return failure();
  return emitter.store(0, results[0], linear, resultType.getElementType());
}

LogicalResult KernelEmitter::Scatter::emitPoint(AffineExpr linear) {
  emitter.pushLoop(emitter.constantIndex(0), bound(1), {0, 0}, 1, false);
  LogicalResult result = combine(linear);
  emitter.popLoop();
  return result;
}

LogicalResult KernelEmitter::Scatter::emitWindow(AffineExpr linear) {
  ArrayRef<int64_t> window = numbers.getUpdateWindowDims();
  if (window.empty())
    return emitPoint(linear);
  for (auto [dim, target] :
       llvm::zip(window.drop_back(), ArrayRef(windowDims).drop_back())) {
    int64_t extent = updateType.getDimSize(dim);
    update[dim] = emitter.pushLoop(emitter.constantIndex(0), bound(extent),
                                   {0, extent - 1}, 1, false);
    linear = linear + update[dim] * strides[target];
  }
  int64_t extent = updateType.getDimSize(window.back());
  int64_t stride = strides[windowDims[window.size() - 1]];
  int64_t lanes = emitter.maxLanes;
  while (lanes > 1 && (extent % lanes != 0 || stride != 1))
    lanes /= 2;
  AffineExpr last =
      emitter.pushLoop(emitter.constantIndex(0), bound(extent), {0, extent - 1},
                       lanes, lanes > 1, Spread::Threads);
  update[window.back()] = last;
  if (failed(combine(linear + last * stride)))
    return failure();
  emitter.popLoop();
  // Overlapping windows may be updated by different threads.
  if (emitter.grid && windowElements() == 0)
    emitter.emitBarrier(emitter.innermost());
  return success();
}

// The written buffer already holds the input. Updates are applied in the order
// of their index; windows that would leave the result are dropped.
FailureOr<int64_t> KernelEmitter::emitScatter(stablehlo::ScatterOp op) {
  if (op.getInputs().size() != 1)
    return op.emitOpError("with several inputs is not in the CPU target");
  Scatter scatter(*this, op);
  scatter.openPlaces();
  FailureOr<SmallVector<Value>> starts = scatter.starts();
  if (failed(starts))
    return failure();
  AffineExpr offset = scatter.offsetOf(*starts);
  scatter.selectPart(offset);
  if (failed(scatter.emitWindow(offset)))
    return failure();
  while (innermost() > 0)
    popLoop();
  if (failed(checkInPlace()))
    return failure();
  return scatter.parts;
}
