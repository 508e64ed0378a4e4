//===- Softmax.cpp - Softmax, its parts and its logarithm -----------------===//

#include "scalify/Idioms/Idioms.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;
using namespace scalify::idioms;

//===----------------------------------------------------------------------===//
// Reductions of rows and of segments
//===----------------------------------------------------------------------===//

/// Looks through changes of shape, and through the select that counts negative
/// indices from the end.
static Value peelIndices(Value indices) {
  Value source = peelToSource(indices);
  if (auto select = source.getDefiningOp<SelectOp>())
    source = peelToSource(select.getOnFalse());
  return source;
}

/// Returns the scatter into segments from which each element of `value` gathers
/// its own segment, as uses of `segment_sum` and `segment_max` do.
static ScatterOp getSegments(Value value) {
  auto gather = value.getDefiningOp<GatherOp>();
  auto scatter =
      gather ? gather.getOperand().getDefiningOp<ScatterOp>() : ScatterOp();
  if (!scatter || scatter->getNumResults() != 1 ||
      countElements(value) != countElements(scatter.getUpdates()[0]) ||
      peelIndices(gather.getStartIndices()) !=
          peelIndices(scatter.getScatterIndices()))
    return {};
  return scatter;
}

/// If `row` reduces a row of `x`, or for an estimate a segment, sets `reduce`
/// (null for a segment) and the number of elements in one.
static bool matchReduction(const RowValue &row, Value x, ReductionKind kind,
                           ReduceOp &reduce, double &width) {
  reduce = row.getReduction(x, kind);
  if (reduce) {
    width = countElements(x, reduce.getDimensions());
    return true;
  }
  ScatterOp scatter =
      row.purpose == MatchFor::Estimate ? getSegments(row.value) : ScatterOp();
  if (!scatter || scatter.getUpdates()[0] != x ||
      getReductionKind(scatter.getUpdateComputation()) != kind)
    return false;
  width = std::max(1.0, countElements(x) /
                            std::max(1.0, countElements(scatter.getResult(0))));
  return true;
}

/// Looks through max(c, value), which is no smaller. Returns false if it may be
/// larger: max(-inf, value) is the value.
static bool skipMaximum(RowValue &row) {
  bool isSkipped = true;
  while (auto max = row.value.getDefiningOp<MaxOp>()) {
    unsigned constantAt = getSplat(max.getLhs()) ? 0 : 1;
    std::optional<double> c = getSplat(max->getOperand(constantAt));
    if (!c)
      break;
    isSkipped &= *c < 0 && std::isinf(*c);
    row = row.follow(max->getOperand(1 - constantAt));
  }
  return isSkipped;
}

/// Looks through select(.., value, ..) for an estimate, for a proof through
/// select(is_finite(m), m, 0). Returns m, or null.
static Value skipFiniteSelect(RowValue &row) {
  auto select = row.value.getDefiningOp<SelectOp>();
  auto isFinite =
      select ? select.getPred().getDefiningOp<IsFiniteOp>() : IsFiniteOp();
  bool isChecked = isFinite && isFinite.getX() == select.getOnTrue();
  if (!select || (row.purpose == MatchFor::Proof && !isChecked))
    return {};
  row = row.follow(select.getOnTrue());
  return select.getOnTrue();
}

std::optional<MaxSubtraction> idioms::matchMaxSubtraction(Value value,
                                                          MatchFor purpose) {
  auto subtract = value.getDefiningOp<SubtractOp>();
  if (!subtract)
    return std::nullopt;
  MaxSubtraction found;
  found.input = subtract.getLhs();
  RowValue row(subtract.getRhs(), purpose);
  found.ifFinite = skipFiniteSelect(row);
  found.isAttained = skipMaximum(row);
  if (!matchReduction(row, found.input, ReductionKind::Max, found.max,
                      found.width))
    return std::nullopt;
  std::optional<double> start =
      found.max ? getSplat(found.max.getInitValues()[0]) : std::nullopt;
  found.isAttained &= start && *start < 0 && std::isinf(*start);
  found.coarsest = coarserOf(getCoarsest(found.input), row.coarsest);
  return found;
}

std::optional<Share> idioms::matchShare(Operation *op, MatchFor purpose) {
  auto div = dyn_cast<DivOp>(op);
  if (!div)
    return std::nullopt;
  Share share;
  share.input = div.getLhs();
  RowValue row(div.getRhs(), purpose);
  if (purpose == MatchFor::Estimate) {
    if (auto add = row.value.getDefiningOp<AddOp>())
      for (unsigned i : {0, 1})
        if (getSplat(add->getOperand(i)) >= 0.0)
          row = row.follow(add->getOperand(1 - i));
    skipFiniteSelect(row);
  }
  if (!matchReduction(row, share.input, ReductionKind::Add, share.sum,
                      share.width))
    return std::nullopt;
  share.coarsest = coarserOf(getCoarsest(share.input), row.coarsest);
  return share;
}

std::optional<Softmax> idioms::matchSoftmax(Operation *op) {
  std::optional<Share> share = matchShare(op, MatchFor::Proof);
  auto exponentials =
      share ? skipConverts(share->input).getDefiningOp<ExpOp>() : ExpOp();
  auto shift = exponentials ? matchMaxSubtraction(exponentials.getOperand(),
                                                  MatchFor::Proof)
                            : std::nullopt;
  return shift ? std::optional(Softmax{*shift, exponentials, *share})
               : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Logarithms and means
//===----------------------------------------------------------------------===//

/// Returns the sum along rows that `value` is, or null.
static ReduceOp getSum(Value value) {
  RowValue row(value, MatchFor::Estimate);
  auto reduce = row.value.getDefiningOp<ReduceOp>();
  return reduce ? row.getReduction(reduce.getInputs()[0], ReductionKind::Add)
                : ReduceOp();
}

/// If `value` is log(sum(exp(x))), with `isShifted` log(sum(exp(x - max(x)))),
/// returns the number of terms. JAX takes the magnitude of the sum.
static std::optional<double> getLogSumWidth(Value value, Value x,
                                            bool isShifted) {
  auto log = peelToSource(value).getDefiningOp<LogOp>();
  Value inner = log ? peelToSource(log->getOperand(0)) : Value();
  if (auto magnitude = inner ? inner.getDefiningOp<AbsOp>() : AbsOp())
    inner = magnitude->getOperand(0);
  ReduceOp sum = inner ? getSum(inner) : ReduceOp();
  auto exponential = sum ? sum.getInputs()[0].getDefiningOp<ExpOp>() : ExpOp();
  if (!exponential)
    return std::nullopt;
  Value source = exponential->getOperand(0);
  if (isShifted) {
    auto shift = matchMaxSubtraction(source, MatchFor::Estimate);
    source = shift ? shift->input : Value();
  }
  return source == x ? std::optional(countElements(x, sum.getDimensions()))
                     : std::nullopt;
}

std::optional<LogSoftmax> idioms::matchLogSoftmax(Value value) {
  auto subtract = value.getDefiningOp<SubtractOp>();
  if (!subtract)
    return std::nullopt;
  Value x = subtract.getLhs();
  std::optional<double> width = getLogSumWidth(subtract.getRhs(), x, false);
  if (auto sum = peelToSource(subtract.getRhs()).getDefiningOp<AddOp>())
    for (Value operand : sum->getOperands())
      if (!width)
        width = getLogSumWidth(operand, x, true);
  return width ? std::optional(LogSoftmax{x, *width}) : std::nullopt;
}

bool idioms::isMeanOf(Value value, Value x) {
  Operation *scaled = peelToSource(value).getDefiningOp();
  return isa_and_nonnull<DivOp, MulOp>(scaled) &&
         llvm::any_of(scaled->getOperands(), [&](Value operand) {
           ReduceOp sum = getSum(operand);
           return sum && sum.getInputs()[0] == x;
         });
}
