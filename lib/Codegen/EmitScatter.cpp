//===- EmitScatter.cpp - Updates at places known at run time --------------===//

#include "KernelEmitter.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

// The written buffer holds the input already. Updates are applied in the order
// of their index, windows that would leave the result are dropped.
LogicalResult KernelEmitter::emitScatter(stablehlo::ScatterOp op) {
  Location loc = op.getLoc();
  if (op.getInputs().size() != 1)
    return op.emitOpError("with several inputs is not in the CPU target");
  auto numbers = op.getScatterDimensionNumbers();
  auto updateType = cast<RankedTensorType>(op.getUpdates()[0].getType());
  auto resultType = cast<RankedTensorType>(op.getResult(0).getType());
  auto indexType = cast<RankedTensorType>(op.getScatterIndices().getType());
  int64_t vectorDim = numbers.getIndexVectorDim();
  auto contains = [](ArrayRef<int64_t> list, int64_t x) {
    return llvm::is_contained(list, x);
  };

  // Loops over the places first, over the window inside.
  Index update(updateType.getRank()), places;
  for (int64_t d = 0; d < updateType.getRank(); ++d)
    if (!contains(numbers.getUpdateWindowDims(), d)) {
      update[d] = pushLoop(0, updateType.getDimSize(d));
      places.push_back(update[d]);
    }
  unsigned placeLevel = innermost();
  SmallVector<int64_t> windowDims;
  for (int64_t d = 0; d < resultType.getRank(); ++d)
    if (!contains(numbers.getInsertedWindowDims(), d) &&
        !contains(numbers.getInputBatchingDims(), d))
      windowDims.push_back(d);

  // Start of the window in the result.
  SmallVector<Value> starts(resultType.getRank());
  SmallVector<int64_t> extents(resultType.getRank(), 1);
  for (auto [window, d] : llvm::zip(numbers.getUpdateWindowDims(), windowDims))
    extents[d] = updateType.getDimSize(window);
  Value inside;
  for (auto [k, d] : llvm::enumerate(numbers.getScatterDimsToOperandDims())) {
    Index place;
    size_t next = 0;
    for (int64_t i = 0; i < indexType.getRank(); ++i)
      place.push_back(i == vectorDim ? scope.constant(k) : places[next++]);
    FailureOr<Element> e = element(op.getScatterIndices(), place);
    if (failed(e))
      return failure();
    OpBuilder &b = at(placeLevel);
    Value start =
        arith::IndexCastOp::create(b, loc, b.getIndexType(), e->value);
    int64_t room = resultType.getDimSize(d) - extents[d] + 1;
    Value fits =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, start,
                              constantLike(b, loc, b.getIndexType(), room));
    inside = inside ? Value(arith::AndIOp::create(b, loc, inside, fits)) : fits;
    starts[d] = start;
  }
  for (auto [d, indexDim] : llvm::zip(numbers.getInputBatchingDims(),
                                      numbers.getScatterIndicesBatchingDims()))
    starts[d] = asIndex(places[indexDim > vectorDim ? indexDim - 1 : indexDim]);

  // Base offset in the result, 0 where the window does not fit.
  SmallVector<int64_t> strides(resultType.getRank(), 1);
  for (int64_t d = resultType.getRank() - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * resultType.getDimSize(d + 1);
  OpBuilder &b = at(placeLevel);
  Value base = constantLike(b, loc, b.getIndexType(), int64_t(0));
  for (int64_t d = 0; d < resultType.getRank(); ++d)
    if (starts[d])
      base = arith::AddIOp::create(
          b, loc, base,
          arith::MulIOp::create(
              b, loc, starts[d],
              constantLike(b, loc, b.getIndexType(), strides[d])));
  // A window that does not fit has no iterations.
  auto bound = [&](int64_t extent) -> Value {
    OpBuilder &b = at(placeLevel);
    Value all = constantLike(b, loc, b.getIndexType(), extent);
    if (!inside)
      return all;
    return arith::SelectOp::create(
        b, loc, inside, all,
        constantLike(b, loc, b.getIndexType(), int64_t(0)));
  };
  AffineExpr offset =
      scope.addSymbol({{0, resultType.getNumElements()}, base, placeLevel});

  Value memory = function.getArgument(kernel.getReads().size());
  Type elementType = resultType.getElementType();
  auto combine = [&](AffineExpr linear) -> LogicalResult {
    FailureOr<Element> value = element(op.getUpdates()[0], update);
    if (failed(value))
      return failure();
    Value place = asIndex(linear);
    OpBuilder &b = at(innermost());
    bool isVector = scope.dependsOnLanes(linear);
    Type stored = cast<MemRefType>(memory.getType()).getElementType();
    Value old =
        isVector
            ? Value(vector::LoadOp::create(
                  b, loc, cast<VectorType>(vectorOf(stored)), memory, place))
            : Value(memref::LoadOp::create(b, loc, memory, place));
    old = toRegister(b, loc, old, elementType);
    SmallVector<Element> results;
    Element now = *value;
    if (isVector)
      now.value = broadcast(at(innermost()), now.value);
    if (failed(apply(op.getUpdateComputation().front(),
                     {{old, innermost()}, now}, results)))
      return failure();
    return store(0, results[0], linear, elementType);
  };

  ArrayRef<int64_t> window = numbers.getUpdateWindowDims();
  AffineExpr linear = offset;
  if (window.empty()) {
    update.resize(updateType.getRank());
    AffineExpr once = pushLoop(constantIndex(0), bound(1), {0, 0}, 1, false);
    (void)once;
    LogicalResult result = combine(linear);
    popLoop();
    if (failed(result))
      return failure();
  } else {
    for (size_t i = 0; i + 1 < window.size(); ++i) {
      int64_t extent = updateType.getDimSize(window[i]);
      Value upper = bound(extent);
      update[window[i]] =
          pushLoop(constantIndex(0), upper, {0, extent - 1}, 1, false);
      linear = linear + update[window[i]] * strides[windowDims[i]];
    }
    int64_t extent = updateType.getDimSize(window.back());
    bool contiguous = strides[windowDims[window.size() - 1]] == 1;
    int64_t lanes = 16;
    while (lanes > 1 && (extent % lanes != 0 || !contiguous))
      lanes /= 2;
    Value upper = bound(extent);
    AffineExpr last =
        pushLoop(constantIndex(0), upper, {0, extent - 1}, lanes, lanes > 1);
    update[window.back()] = last;
    linear = linear + last * strides[windowDims[window.size() - 1]];
    if (failed(combine(linear)))
      return failure();
    popLoop();
  }
  while (innermost() > 0)
    popLoop();
  return success();
}
