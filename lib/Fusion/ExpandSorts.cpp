//===- ExpandSorts.cpp - Sorts as elementwise ops -------------------------===//
//
// Both forms compare by the sort's own region, and by position where it orders
// neither element first: every sort is stable.
//
// - Short rows with total orders: an element's position is the number of those
//   that precede it.
// - Long rows, and orders that are partial because of NaNs: a bitonic network
//   (Batcher 1968, "Sorting Networks and their Applications"), whose steps,
//   log2(n) (log2(n) + 1) / 2 of them, are elementwise.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"

#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Dialect/StableHLO/ElementRegions.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Fusion/Passes.h"

#include "llvm/Support/MathExtras.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDSORTS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

// Up to this length, n^2 comparisons in one kernel are cheaper than a kernel
// per step.
static constexpr int64_t kShortRow = 64;

using MaybeValue = FailureOr<Value>;
using MaybeValues = FailureOr<SmallVector<Value>>;

/// Returns the sorted dimension; negative ones count from the end.
static int64_t getDim(stablehlo::SortOp op) {
  auto dim = static_cast<int64_t>(op.getDimension());
  return dim < 0 ? dim + typeOf(op.getInputs()[0]).getRank() : dim;
}

namespace {
class Sorter {
public:
  Sorter(ImplicitLocOpBuilder &b, stablehlo::SortOp op)
      : b(b), op(op), type(typeOf(op.getInputs()[0])), dim(getDim(op)),
        size(type.getDimSize(dim)) {}

  MaybeValues sort() {
    return size <= kShortRow && isTotal() ? byCounting() : byNetwork();
  }

private:
  bool isTotal();
  MaybeValues byCounting();
  MaybeValues byNetwork();
  MaybeValues step(ArrayRef<Value> values, int64_t length, int64_t run,
                   int64_t distance);
  MaybeValue isBefore(ValueRange x, Value xPlace, ValueRange y, Value yPlace);
  Value spread(Value value, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims);
  Value iota(ArrayRef<int64_t> shape, int64_t along);
  Value compare(Value x, Value y, stablehlo::ComparisonDirection direction);
  Value part(Value value, int64_t along, int64_t start, int64_t end);
  Value reshape(Value value, ArrayRef<int64_t> shape);

  ImplicitLocOpBuilder &b;
  stablehlo::SortOp op;
  RankedTensorType type;
  int64_t dim, size;
  bool isPadded = false;
};
} // namespace

/// True if the comparator is a total order. By `LT`, a NaN is neither before
/// nor after other elements: counting would assign a position twice, while a
/// network only exchanges elements and loses none.
bool Sorter::isTotal() {
  return !op.getComparator()
              .walk([](stablehlo::CompareOp compare) {
                bool isFloat = isa<FloatType>(
                    getElementTypeOrSelf(compare.getLhs().getType()));
                return isFloat && compare.getCompareType() !=
                                      stablehlo::ComparisonType::TOTALORDER
                           ? WalkResult::interrupt()
                           : WalkResult::advance();
              })
              .wasInterrupted();
}

Value Sorter::spread(Value value, ArrayRef<int64_t> shape,
                     ArrayRef<int64_t> dims) {
  return stablehlo::BroadcastInDimOp::create(b, typeOf(value).clone(shape),
                                             value, dims);
}

Value Sorter::iota(ArrayRef<int64_t> shape, int64_t along) {
  return stablehlo::IotaOp::create(
      b, RankedTensorType::get(shape, b.getI32Type()), along);
}

Value Sorter::compare(Value x, Value y,
                      stablehlo::ComparisonDirection direction) {
  return stablehlo::CompareOp::create(b, x, y, direction,
                                      stablehlo::ComparisonType::SIGNED);
}

Value Sorter::reshape(Value value, ArrayRef<int64_t> shape) {
  return stablehlo::ReshapeOp::create(b, value, shape);
}

Value Sorter::part(Value value, int64_t along, int64_t start, int64_t end) {
  return stablehlo::SliceOp::create(b, value, along, start, end);
}

/// Computes whether x goes before y. Applies the region both ways: where both
/// results are the same, the elements keep their order.
MaybeValue Sorter::isBefore(ValueRange x, Value xPlace, ValueRange y,
                            Value yPlace) {
  SmallVector<Value> forward, backward;
  for (auto [mine, other] : llvm::zip(x, y)) {
    forward.append({mine, other});
    backward.append({other, mine});
  }
  Block &body = op.getComparator().front();
  auto less = stablehlo::applyToElements(b, op, body, forward);
  auto more = stablehlo::applyToElements(b, op, body, backward);
  if (failed(less) || failed(more))
    return failure();
  Value first = compare(xPlace, yPlace, stablehlo::ComparisonDirection::LT);
  Value differs = stablehlo::XorOp::create(b, less->front(), more->front());
  Value isBefore =
      stablehlo::SelectOp::create(b, differs, less->front(), first);
  if (!isPadded)
    return isBefore;
  // Padding has the last positions and stays after all elements.
  auto places = typeOf(xPlace);
  Value end = stablehlo::buildConstant(b, places, static_cast<int32_t>(size));
  Value last = stablehlo::MaxOp::create(b, xPlace, yPlace);
  Value isReal = compare(last, end, stablehlo::ComparisonDirection::LT);
  return stablehlo::SelectOp::create(b, isReal, isBefore, first).getResult();
}

/// rank[i] = the number of elements before i; result[r] = the bitwise or of the
/// elements of rank r.
MaybeValues Sorter::byCounting() {
  // [.., i, ..] and [.., j, ..] in one tensor [.., i, .., j].
  SmallVector<int64_t> pairs(type.getShape());
  int64_t other = type.getRank();
  pairs.push_back(size);
  SmallVector<int64_t> mine, theirs;
  for (int64_t d = 0; d < other; ++d) {
    mine.push_back(d);
    theirs.push_back(d == dim ? other : d);
  }
  SmallVector<Value> x, y;
  for (Value input : op.getInputs()) {
    x.push_back(spread(input, pairs, theirs));
    y.push_back(spread(input, pairs, mine));
  }
  MaybeValue before = isBefore(x, iota(pairs, other), y, iota(pairs, dim));
  if (failed(before))
    return failure();
  Value counts = stablehlo::ConvertOp::create(
      b, RankedTensorType::get(pairs, b.getI32Type()), *before);
  Value zero = zeroOf(b, b.getI32Type());
  Value rank = stablehlo::buildReduce<stablehlo::AddOp>(b, b.getLoc(), counts,
                                                        zero, {other});
  // [.., r, ..] takes the j whose rank is r.
  Value isHere = compare(spread(rank, pairs, theirs), iota(pairs, dim),
                         stablehlo::ComparisonDirection::EQ);
  SmallVector<Value> sorted;
  for (Value input : op.getInputs()) {
    Value candidates = spread(input, pairs, theirs);
    Type element = typeOf(input).getElementType();
    // As bits: an or with zeros keeps them, a NaN's too.
    Type bits = element;
    if (isa<FloatType>(element))
      bits = b.getIntegerType(element.getIntOrFloatBitWidth());
    if (bits != element)
      candidates = stablehlo::BitcastConvertOp::create(
          b, typeOf(candidates).clone(bits), candidates);
    Value none = zeroOf(b, bits);
    Value taken = stablehlo::SelectOp::create(b, isHere, candidates,
                                              spread(none, pairs, {}));
    Value row = stablehlo::buildReduce<stablehlo::OrOp>(b, b.getLoc(), taken,
                                                        none, {other});
    if (bits != element)
      row = stablehlo::BitcastConvertOp::create(b, input.getType(), row);
    sorted.push_back(row);
  }
  return sorted;
}

/// Exchanges elements `distance` apart, towards runs of `run` elements that are
/// in ascending and descending order by turns. The last of `values` is the
/// positions.
MaybeValues Sorter::step(ArrayRef<Value> values, int64_t length, int64_t run,
                         int64_t distance) {
  ArrayRef<int64_t> shape = type.getShape();
  SmallVector<int64_t> split(shape.take_front(dim));
  split.append({length / (2 * distance), 2, distance});
  llvm::append_range(split, shape.drop_front(dim + 1));
  SmallVector<Value> low, high;
  for (Value value : values) {
    Value pairs = reshape(value, split);
    low.push_back(part(pairs, dim + 1, 0, 1));
    high.push_back(part(pairs, dim + 1, 1, 2));
  }
  MaybeValue isWrong = isBefore(ValueRange(high).drop_back(), high.back(),
                                ValueRange(low).drop_back(), low.back());
  if (failed(isWrong))
    return failure();
  SmallVector<int64_t> half(typeOf(low[0]).getShape());
  auto places = RankedTensorType::get(half, b.getI32Type());
  auto constant = [&](int64_t value) -> Value {
    return stablehlo::buildConstant(b, places, static_cast<int32_t>(value));
  };
  // A pair's run is descending where its number is odd.
  Value odd = stablehlo::AndOp::create(
      b,
      stablehlo::DivOp::create(b, iota(half, dim),
                               constant(run / (2 * distance))),
      constant(1));
  Value descends =
      compare(odd, constant(1), stablehlo::ComparisonDirection::EQ);
  Value swaps = stablehlo::XorOp::create(b, *isWrong, descends);
  SmallVector<int64_t> joined(shape);
  joined[dim] = length;
  SmallVector<Value> next;
  for (auto [x, y] : llvm::zip(low, high)) {
    Value first = stablehlo::SelectOp::create(b, swaps, y, x);
    Value second = stablehlo::SelectOp::create(b, swaps, x, y);
    auto pairs =
        stablehlo::ConcatenateOp::create(b, ValueRange{first, second}, dim + 1);
    // The next step would compute it once for each of its reads.
    pairs->setAttr(plan::kMaterialiseAttr, b.getUnitAttr());
    next.push_back(reshape(pairs, joined));
  }
  return next;
}

MaybeValues Sorter::byNetwork() {
  auto length = static_cast<int64_t>(llvm::PowerOf2Ceil(size));
  isPadded = length != size;
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = length;
  SmallVector<int64_t> none(shape.size(), 0), high(none);
  high[dim] = length - size;
  SmallVector<Value> values;
  for (Value input : op.getInputs())
    values.push_back(!isPadded ? input
                               : stablehlo::PadOp::create(
                                     b, input,
                                     zeroOf(b, typeOf(input).getElementType()),
                                     none, high, none));
  values.push_back(iota(shape, dim));
  for (int64_t run = 2; run <= length; run *= 2)
    for (int64_t distance = run / 2; distance >= 1; distance /= 2) {
      MaybeValues next = step(values, length, run, distance);
      if (failed(next))
        return failure();
      values = *next;
    }
  values.pop_back();
  for (Value &value : values)
    if (isPadded)
      value = part(value, dim, 0, size);
  return values;
}

namespace {
struct ExpandSortsPass : scalify::impl::ExpandSortsBase<ExpandSortsPass> {
  void runOnOperation() override;
};
} // namespace

void ExpandSortsPass::runOnOperation() {
  auto count = expandOps(
      getOperation(), llvm::IsaPred<stablehlo::SortOp>,
      [](ImplicitLocOpBuilder &b, Operation *op) -> MaybeValues {
        if (!llvm::any_of(op->getOperandTypes(), hasFP8Elements))
          return Sorter(b, cast<stablehlo::SortOp>(op)).sort();
        op->emitOpError("sorts FP8 data, which no kernel compares; convert "
                        "them to F32, which is exact, and the result back");
        return failure();
      });
  if (failed(count))
    return signalPassFailure();
  numSorts += *count;
}
