//===- SplitScatters.cpp - Scatters into several inputs -------------------===//
//
// A kernel scatters into the memory of one input. Where the computation of each
// result reads only its own input and update, the results are scatters of their
// own. Others, such as one that keeps the largest value and its position, take
// the elements of the updates one after another in a loop.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"

#include "scalify/Dialect/StableHLO/ElementRegions.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Fusion/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"

#include <algorithm>
#include <functional>

namespace scalify {
#define GEN_PASS_DEF_SPLITSCATTERS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using stablehlo::ComparisonDirection;

/// Returns the ops of a scatter's computation that make result `index`; nullopt
/// if it reads more than the input and the update of that result.
static std::optional<llvm::DenseSet<Operation *>>
findOwnOps(stablehlo::ScatterOp op, unsigned index) {
  Block &body = op.getUpdateComputation().front();
  size_t count = op.getInputs().size();
  llvm::DenseSet<Operation *> ops;
  SmallVector<Value> pending{body.getTerminator()->getOperand(index)};
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (argument.getOwner() == &body &&
          argument.getArgNumber() % count != index)
        return std::nullopt;
      continue;
    }
    Operation *def = value.getDefiningOp();
    if (def->getBlock() != &body || !ops.insert(def).second)
      continue;
    if (def->getNumRegions() != 0)
      return std::nullopt;
    llvm::append_range(pending, def->getOperands());
  }
  return ops;
}

static Value buildScatter(ImplicitLocOpBuilder &b, stablehlo::ScatterOp op,
                          unsigned index,
                          const llvm::DenseSet<Operation *> &ops) {
  auto scatter = stablehlo::ScatterOp::create(
      b, TypeRange{op.getResult(index).getType()},
      ValueRange{op.getInputs()[index]}, op.getScatterIndices(),
      ValueRange{op.getUpdates()[index]}, op.getScatterDimensionNumbersAttr(),
      op.getIndicesAreSortedAttr(), op.getUniqueIndicesAttr());
  Block &from = op.getUpdateComputation().front();
  Block &to = scatter.getUpdateComputation().emplaceBlock();
  IRMapping map;
  for (unsigned number : {index, index + unsigned(op.getInputs().size())}) {
    BlockArgument argument = from.getArgument(number);
    map.map(argument, to.addArgument(argument.getType(), argument.getLoc()));
  }
  OpBuilder inner = OpBuilder::atBlockEnd(&to);
  for (Operation &def : from.without_terminator())
    if (ops.contains(&def))
      inner.clone(def, map);
  stablehlo::ReturnOp::create(
      inner, op.getLoc(),
      map.lookupOrDefault(from.getTerminator()->getOperand(index)));
  return scatter.getResult(0);
}

namespace {
/// A loop over the elements of the updates, window by window.
class ElementLoop {
public:
  ElementLoop(ImplicitLocOpBuilder &b, stablehlo::ScatterOp op)
      : b(b), op(op), numbers(op.getScatterDimensionNumbers()),
        updates(typeOf(op.getUpdates()[0])), type(typeOf(op.getResult(0))) {}

  /// Builds the results before the first element.
  SmallVector<Value> begin();
  FailureOr<SmallVector<Value>> build();

private:
  Value constant(int64_t number) {
    return stablehlo::buildConstant(b, index, number);
  }
  Value convert(Value value, Type element);
  Value elementOf(Value tensor, ArrayRef<Value> place);
  SmallVector<Value> unflatten(Value linear);
  Value start(size_t component, ArrayRef<Value> places);
  SmallVector<Value> findPlace(ArrayRef<Value> update, Value &isInside);
  FailureOr<SmallVector<Value>> buildBody(ValueRange carries);

  ImplicitLocOpBuilder &b;
  stablehlo::ScatterOp op;
  stablehlo::ScatterDimensionNumbersAttr numbers;
  RankedTensorType updates, type;
  RankedTensorType index = RankedTensorType::get({}, b.getI64Type());
};
} // namespace

Value ElementLoop::convert(Value value, Type element) {
  RankedTensorType own = typeOf(value);
  return own.getElementType() == element
             ? value
             : stablehlo::ConvertOp::create(b, own.clone(element), value);
}

/// Reads one element. A place outside is moved to the nearest one inside.
Value ElementLoop::elementOf(Value tensor, ArrayRef<Value> place) {
  SmallVector<int64_t> ones(place.size(), 1);
  auto element = RankedTensorType::get({}, typeOf(tensor).getElementType());
  Value slice = stablehlo::DynamicSliceOp::create(b, element.clone(ones),
                                                  tensor, place, ones);
  return stablehlo::ReshapeOp::create(b, element, slice);
}

/// Returns the place of an element in the updates. The elements of a window
/// follow each other, as in a scatter into one input.
SmallVector<Value> ElementLoop::unflatten(Value linear) {
  SmallVector<Value> place(updates.getRank());
  auto isInWindow = [&](int64_t d) {
    return llvm::is_contained(numbers.getUpdateWindowDims(), d);
  };
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, updates.getRank()));
  std::stable_partition(dims.begin(), dims.end(), std::not_fn(isInWindow));
  for (int64_t d : llvm::reverse(dims)) {
    Value extent = constant(updates.getDimSize(d));
    place[d] = stablehlo::RemOp::create(b, linear, extent);
    linear = stablehlo::DivOp::create(b, linear, extent);
  }
  return place;
}

/// Reads a component of the index vector at `places`.
Value ElementLoop::start(size_t component, ArrayRef<Value> places) {
  SmallVector<Value> place;
  size_t next = 0;
  for (int64_t d = 0; d < typeOf(op.getScatterIndices()).getRank(); ++d)
    place.push_back(d == numbers.getIndexVectorDim()
                        ? constant(static_cast<int64_t>(component))
                        : places[next++]);
  return convert(elementOf(op.getScatterIndices(), place), b.getI64Type());
}

/// Returns the place of an update's element in the results, and whether all of
/// its window is inside of them.
SmallVector<Value> ElementLoop::findPlace(ArrayRef<Value> update,
                                          Value &isInside) {
  SmallVector<Value> places;
  for (auto [d, coordinate] : llvm::enumerate(update))
    if (!llvm::is_contained(numbers.getUpdateWindowDims(), d))
      places.push_back(coordinate);
  SmallVector<Value> place(type.getRank(), constant(0));
  SmallVector<int64_t> extents(type.getRank(), 1);
  size_t next = 0;
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (!llvm::is_contained(numbers.getInsertedWindowDims(), d) &&
        !llvm::is_contained(numbers.getInputBatchingDims(), d)) {
      int64_t window = numbers.getUpdateWindowDims()[next++];
      place[d] = update[window];
      extents[d] = updates.getDimSize(window);
    }
  int64_t vectorDim = numbers.getIndexVectorDim();
  for (auto [d, indexDim] : llvm::zip(numbers.getInputBatchingDims(),
                                      numbers.getScatterIndicesBatchingDims()))
    place[d] = places[indexDim > vectorDim ? indexDim - 1 : indexDim];
  auto compare = [&](Value x, ComparisonDirection how, int64_t bound) -> Value {
    return stablehlo::CompareOp::create(b, x, constant(bound), how,
                                        stablehlo::ComparisonType::SIGNED);
  };
  isInside = stablehlo::buildConstant(
      b, RankedTensorType::get({}, b.getI1Type()), true);
  for (auto [k, d] : llvm::enumerate(numbers.getScatterDimsToOperandDims())) {
    Value begin = start(k, places);
    for (Value fits : {compare(begin, ComparisonDirection::GE, 0),
                       compare(begin, ComparisonDirection::LE,
                               type.getDimSize(d) - extents[d])})
      isInside = stablehlo::AndOp::create(b, isInside, fits);
    place[d] = stablehlo::AddOp::create(b, place[d], begin);
  }
  return place;
}

FailureOr<SmallVector<Value>> ElementLoop::buildBody(ValueRange carries) {
  SmallVector<Value> update = unflatten(carries[0]);
  Value isInside;
  SmallVector<Value> place = findPlace(update, isInside);
  Block &computation = op.getUpdateComputation().front();
  SmallVector<Value> elements;
  for (Value result : carries.drop_front())
    elements.push_back(elementOf(result, place));
  for (auto [part, argument] :
       llvm::zip(op.getUpdates(),
                 computation.getArguments().drop_front(elements.size())))
    elements.push_back(convert(elementOf(part, update),
                               getElementTypeOrSelf(argument.getType())));
  auto made = stablehlo::applyToElements(b, op, computation, elements);
  if (failed(made))
    return failure();
  SmallVector<Value> next{stablehlo::AddOp::create(b, carries[0], constant(1))};
  SmallVector<int64_t> ones(type.getRank(), 1);
  for (auto [now, old, result] :
       llvm::zip(*made, elements, carries.drop_front())) {
    Value chosen = stablehlo::SelectOp::create(b, isInside, now, old);
    Value slice =
        stablehlo::ReshapeOp::create(b, typeOf(chosen).clone(ones), chosen);
    next.push_back(
        stablehlo::DynamicUpdateSliceOp::create(b, result, slice, place));
  }
  return next;
}

SmallVector<Value> ElementLoop::begin() {
  SmallVector<Value> values;
  for (auto [input, result] : llvm::zip(op.getInputs(), op.getResults()))
    values.push_back(convert(input, getElementTypeOrSelf(result.getType())));
  return values;
}

FailureOr<SmallVector<Value>> ElementLoop::build() {
  SmallVector<Value> carries{constant(0)};
  llvm::append_range(carries, begin());
  auto types = llvm::to_vector(ValueRange(carries).getTypes());
  SmallVector<Location> locs(types.size(), b.getLoc());
  auto loop = stablehlo::WhileOp::create(b, types, carries);
  OpBuilder::InsertionGuard guard(b);
  Block *condition = b.createBlock(&loop.getCond(), {}, types, locs);
  Value more = stablehlo::CompareOp::create(
      b, condition->getArgument(0), constant(updates.getNumElements()),
      ComparisonDirection::LT, stablehlo::ComparisonType::SIGNED);
  stablehlo::ReturnOp::create(b, more);
  Block *body = b.createBlock(&loop.getBody(), {}, types, locs);
  auto next = buildBody(body->getArguments());
  if (failed(next))
    return failure();
  stablehlo::ReturnOp::create(b, *next);
  return SmallVector<Value>(loop.getResults().drop_front());
}

static FailureOr<SmallVector<Value>> splitScatter(ImplicitLocOpBuilder &b,
                                                  Operation *op) {
  auto scatter = cast<stablehlo::ScatterOp>(op);
  auto count = static_cast<unsigned>(scatter.getInputs().size());
  if (countOf(scatter.getInputs()[0]) == 0 ||
      countOf(scatter.getUpdates()[0]) == 0)
    return ElementLoop(b, scatter).begin();
  SmallVector<llvm::DenseSet<Operation *>> parts;
  for (unsigned index = 0; index != count; ++index) {
    auto ops = findOwnOps(scatter, index);
    if (!ops)
      return ElementLoop(b, scatter).build();
    parts.push_back(std::move(*ops));
  }
  SmallVector<Value> results;
  for (unsigned index = 0; index != count; ++index)
    results.push_back(buildScatter(b, scatter, index, parts[index]));
  return results;
}

static bool hasSeveralInputs(Operation *op) {
  auto scatter = dyn_cast<stablehlo::ScatterOp>(op);
  return scatter && scatter.getInputs().size() > 1;
}

namespace {
struct SplitScattersPass : scalify::impl::SplitScattersBase<SplitScattersPass> {
  void runOnOperation() override;
};
} // namespace

void SplitScattersPass::runOnOperation() {
  auto count = expandOps(getOperation(), hasSeveralInputs, splitScatter);
  if (failed(count))
    return signalPassFailure();
  numSplit += *count;
}
