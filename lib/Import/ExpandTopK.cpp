//===- ExpandTopK.cpp - Expand top-k into a sort --------------------------===//
//
// The k largest elements of the last dimension are the first k of a stable
// descending sort, which also sorts their indices. Floats are compared by total
// order: a NaN is larger than any number, as in XLA. jax.lax.approx_max_k may
// miss some elements, and its comparator is a function of the program.
//
//===----------------------------------------------------------------------===//

#include "ExpandTopK.h"

#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace scalify;

static stablehlo::ComparisonType getOrder(Type element) {
  if (isa<FloatType>(element))
    return stablehlo::ComparisonType::TOTALORDER;
  return stablehlo::hasUnsignedElements(element)
             ? stablehlo::ComparisonType::UNSIGNED
             : stablehlo::ComparisonType::SIGNED;
}

/// Builds the comparator: true if the first value precedes the second.
static void buildDescending(ImplicitLocOpBuilder &b, Region &region,
                            TypeRange elements) {
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> scalars;
  for (Type element : elements)
    scalars.append(2, RankedTensorType::get({}, element));
  SmallVector<Location> locs(scalars.size(), b.getLoc());
  Block *block = b.createBlock(&region, {}, scalars, locs);
  Value before = stablehlo::CompareOp::create(
      b, block->getArgument(0), block->getArgument(1),
      stablehlo::ComparisonDirection::GT, getOrder(elements[0]));
  stablehlo::ReturnOp::create(b, before);
}

/// Slices the first elements of the sorted values to the given types.
static SmallVector<Value> takeFirst(ImplicitLocOpBuilder &b,
                                    stablehlo::SortOp sort, TypeRange types) {
  SmallVector<Value> results;
  for (auto [sorted, result] : llvm::zip(sort.getResults(), types)) {
    results.push_back(stablehlo::SliceOp::create(
        b, sorted, cast<RankedTensorType>(result).getShape()));
  }
  return results;
}

static LogicalResult expandTopK(chlo::TopKOp op, PatternRewriter &rewriter) {
  auto type = cast<RankedTensorType>(op.getOperand().getType());
  if (!type.hasStaticShape() || type.getRank() == 0)
    return rewriter.notifyMatchFailure(op, "needs a static shape");
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
  int64_t last = type.getRank() - 1;
  auto indexType = cast<RankedTensorType>(op.getIndices().getType());
  auto placeType = type.clone(indexType.getElementType());
  Value places = stablehlo::IotaOp::create(b, placeType, last);
  auto sort = stablehlo::SortOp::create(b, TypeRange{type, placeType},
                                        ValueRange{op.getOperand(), places},
                                        last, /*is_stable=*/true);
  buildDescending(b, sort.getComparator(),
                  {type.getElementType(), placeType.getElementType()});
  rewriter.replaceOp(op, takeFirst(b, sort, op->getResultTypes()));
  return success();
}

void scalify::import::populateTopKExpansion(RewritePatternSet &patterns) {
  patterns.add(expandTopK);
}

/// True if the function compares two values of each of the types.
static bool isComparatorOf(func::FuncOp function, TypeRange types) {
  SmallVector<Type> scalars;
  for (Type type : types)
    scalars.append(2, RankedTensorType::get({}, getElementTypeOrSelf(type)));
  MLIRContext *context = function.getContext();
  Type flag = RankedTensorType::get({}, IntegerType::get(context, 1));
  return function.getFunctionType() ==
             FunctionType::get(context, scalars, flag) &&
         function.getBody().hasOneBlock() &&
         isa<func::ReturnOp, stablehlo::ReturnOp>(
             function.getBody().front().getTerminator());
}

/// True if the results are the first elements of the operands along `dim`, and
/// all of them have the same shape.
static bool areFirstOf(ValueRange operands, TypeRange results, int64_t dim) {
  auto first = dyn_cast<RankedTensorType>(operands[0].getType());
  if (!first || !first.hasStaticShape() || dim < 0 || dim >= first.getRank())
    return false;
  auto shape = llvm::to_vector(first.getShape());
  auto whole = dyn_cast<RankedTensorType>(results[0]);
  if (!whole || whole.getRank() != first.getRank() || whole.isDynamicDim(dim) ||
      whole.getDimSize(dim) > shape[dim])
    return false;
  shape[dim] = whole.getDimSize(dim);
  return llvm::all_of(llvm::zip(operands, results), [&](auto pair) {
    auto [operand, result] = pair;
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    return type && type.getShape() == first.getShape() &&
           result == type.clone(shape);
  });
}

/// Replaces a call on (operands, initial values) by a sort of the operands.
static LogicalResult expandCall(stablehlo::CustomCallOp call,
                                SymbolTable &symbols) {
  auto config = call->getAttrOfType<DictionaryAttr>("mhlo.backend_config");
  auto dim = config ? config.getAs<IntegerAttr>("reduction_dim") : nullptr;
  ArrayAttr names = call.getCalledComputations();
  auto name = names && names.size() == 1 ? dyn_cast<FlatSymbolRefAttr>(names[0])
                                         : FlatSymbolRefAttr();
  auto before = name ? symbols.lookup<func::FuncOp>(name.getValue()) : nullptr;
  unsigned count = call->getNumResults();
  ValueRange given = call->getOperands();
  if (!dim || dim.getValue().getBitWidth() > 64 || !before || count == 0 ||
      given.size() != 2 * size_t(count) ||
      !isComparatorOf(before, given.take_front(count).getTypes()))
    return call.emitOpError("of 'ApproxTopK' needs a 'reduction_dim' and one "
                            "comparator; use jax.lax.top_k");
  if (!areFirstOf(given.take_front(count), call->getResultTypes(),
                  dim.getValue().getSExtValue()))
    return call.emitOpError("of 'ApproxTopK' has results that are not the "
                            "first elements of its operands along dimension ")
           << dim.getValue().getSExtValue();
  ImplicitLocOpBuilder b(call.getLoc(), call);
  ValueRange operands = call->getOperands().take_front(count);
  auto sort =
      stablehlo::SortOp::create(b, operands.getTypes(), operands, dim.getInt(),
                                /*is_stable=*/true);
  IRMapping mapping;
  before.getBody().cloneInto(&sort.getComparator(), mapping);
  Operation *end = sort.getComparator().front().getTerminator();
  if (auto result = dyn_cast<func::ReturnOp>(end)) {
    OpBuilder atEnd(end);
    stablehlo::ReturnOp::create(atEnd, end->getLoc(), result.getOperands());
    end->erase();
  }
  before.setPrivate();
  call->replaceAllUsesWith(takeFirst(b, sort, call->getResultTypes()));
  call->erase();
  return success();
}

LogicalResult scalify::import::expandApproxTopK(func::FuncOp function,
                                                SymbolTable &symbols) {
  SmallVector<stablehlo::CustomCallOp> calls;
  function.walk([&](stablehlo::CustomCallOp call) {
    if (call.getCallTargetName() == "ApproxTopK")
      calls.push_back(call);
  });
  for (stablehlo::CustomCallOp call : calls)
    if (failed(expandCall(call, symbols)))
      return failure();
  return success();
}
