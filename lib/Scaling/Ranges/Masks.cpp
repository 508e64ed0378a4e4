//===- Masks.cpp - Masks that leave each row an element -------------------===//
//
// A softmax under a mask is finite only if no row is masked as a whole, which
// only the mask's elements show. Masks of attention are computed from iotas and
// constants. Their elements are evaluated one at a time, until each row has an
// unmasked one. For a causal mask that is the first.
//
//===----------------------------------------------------------------------===//

#include "Transfer.h"

#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

// Enough for the rows of the longest sequences, within the time for one mask.
static constexpr int64_t kMaxEvaluations = 1 << 18;

namespace {
/// Evaluates single elements of integer tensors known at compile time.
class ElementEvaluator {
public:
  std::optional<int64_t> evaluate(Value value, ArrayRef<int64_t> index);

private:
  std::optional<int64_t> evaluateExactly(Value value, ArrayRef<int64_t> index);
  std::optional<int64_t> evaluateBinary(Operation *op, ArrayRef<int64_t> index);
  std::optional<int64_t> evaluateMoved(Operation *op, ArrayRef<int64_t> index);
  int64_t evaluations = 0;
};
} // namespace

static bool compare(hlo::ComparisonDirection direction, int64_t a, int64_t b) {
  using Direction = hlo::ComparisonDirection;
  switch (direction) {
  case Direction::EQ:
    return a == b;
  case Direction::NE:
    return a != b;
  case Direction::GE:
    return a >= b;
  case Direction::GT:
    return a > b;
  case Direction::LE:
    return a <= b;
  case Direction::LT:
    return a < b;
  }
  return false;
}

std::optional<int64_t>
ElementEvaluator::evaluateBinary(Operation *op, ArrayRef<int64_t> index) {
  std::optional<int64_t> a = evaluate(op->getOperand(0), index);
  std::optional<int64_t> b = a ? evaluate(op->getOperand(1), index) : a;
  bool isPredicate = getElementTypeOrSelf(op->getOperand(0)).isInteger(1);
  if (!a || !b || (isPredicate && isa<hlo::AddOp, hlo::SubtractOp>(op)))
    return std::nullopt;
  return llvm::TypeSwitch<Operation *, std::optional<int64_t>>(op)
      .Case<hlo::CompareOp>([&](auto compareOp) {
        return compare(compareOp.getComparisonDirection(), *a, *b);
      })
      .Case<hlo::AndOp>([&](auto) { return *a & *b; })
      .Case<hlo::OrOp>([&](auto) { return *a | *b; })
      .Case<hlo::AddOp>([&](auto) { return *a + *b; })
      .Case<hlo::SubtractOp>([&](auto) { return *a - *b; })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<int64_t>
ElementEvaluator::evaluateMoved(Operation *op, ArrayRef<int64_t> index) {
  SmallVector<int64_t> from;
  auto shape = cast<ShapedType>(op->getOperand(0).getType()).getShape();
  if (auto broadcast = dyn_cast<hlo::BroadcastInDimOp>(op)) {
    for (auto [size, dim] :
         llvm::zip(shape, broadcast.getBroadcastDimensions()))
      from.push_back(size == 1 ? 0 : index[dim]);
  } else if (auto transpose = dyn_cast<hlo::TransposeOp>(op)) {
    from.resize(index.size());
    for (auto [to, dim] : llvm::enumerate(transpose.getPermutation()))
      from[dim] = index[to];
  } else {
    // A reshape keeps the row-major index.
    auto full = cast<ShapedType>(op->getResult(0).getType()).getShape();
    int64_t place = 0;
    for (auto [i, size] : llvm::zip(index, full))
      place = place * size + i;
    from.resize(shape.size());
    for (int64_t i = shape.size() - 1; i >= 0; --i) {
      from[i] = place % shape[i];
      place /= shape[i];
    }
  }
  return evaluate(op->getOperand(0), from);
}

/// Integers wrap at the width of their type; a predicate is 0 or 1.
std::optional<int64_t> ElementEvaluator::evaluate(Value value,
                                                  ArrayRef<int64_t> index) {
  std::optional<int64_t> number = evaluateExactly(value, index);
  if (!number)
    return std::nullopt;
  unsigned width =
      getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
  return width == 1 ? *number & 1 : llvm::SignExtend64(*number, width);
}

std::optional<int64_t>
ElementEvaluator::evaluateExactly(Value value, ArrayRef<int64_t> index) {
  Operation *op = value.getDefiningOp();
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (++evaluations > kMaxEvaluations || !op || !type ||
      !type.getElementType().isSignlessInteger())
    return std::nullopt;
  if (auto iota = dyn_cast<hlo::IotaOp>(op))
    return index[iota.getIotaDimension()];
  if (auto constant = dyn_cast<hlo::ConstantOp>(op)) {
    auto values = dyn_cast<DenseIntElementsAttr>(constant.getValue());
    if (!values)
      return std::nullopt;
    int64_t place = 0;
    for (auto [i, size] : llvm::zip(index, type.getShape()))
      place = place * size + i;
    APInt element = values.isSplat() ? values.getSplatValue<APInt>()
                                     : values.getValues<APInt>()[place];
    return element.getSExtValue();
  }
  if (isa<hlo::BroadcastInDimOp, hlo::ReshapeOp, hlo::TransposeOp>(op))
    return evaluateMoved(op, index);
  if (op->getNumOperands() == 2)
    return evaluateBinary(op, index);
  return std::nullopt;
}

/// Returns the mask without the axes that broadcasts added, and maps
/// `isReduced` to its remaining axes.
static Value skipNewAxes(Value mask, SmallVector<bool> &isReduced) {
  while (auto broadcast = mask.getDefiningOp<hlo::BroadcastInDimOp>()) {
    SmallVector<bool> from;
    for (int64_t dim : broadcast.getBroadcastDimensions())
      from.push_back(isReduced[dim]);
    isReduced = from;
    mask = broadcast.getOperand();
  }
  return mask;
}

/// Advances `index` over the axes that are (not) reduced; false at the end.
static bool next(SmallVector<int64_t> &index, ArrayRef<int64_t> shape,
                 ArrayRef<bool> isReduced, bool overReduced) {
  for (int64_t i = shape.size() - 1; i >= 0; --i) {
    if (isReduced[i] != overReduced)
      continue;
    if (++index[i] < shape[i])
      return true;
    index[i] = 0;
  }
  return false;
}

static bool hasTrueInEachRow(Value mask, SmallVector<bool> isReduced) {
  mask = skipNewAxes(mask, isReduced);
  auto shape = cast<ShapedType>(mask.getType()).getShape();
  if (llvm::is_contained(shape, 0))
    return false;
  ElementEvaluator evaluator;
  SmallVector<int64_t> index(shape.size(), 0);
  do {
    bool found = false;
    do {
      std::optional<int64_t> element = evaluator.evaluate(mask, index);
      if (!element)
        return false;
      found = *element != 0;
    } while (!found && next(index, shape, isReduced, /*overReduced=*/true));
    if (!found)
      return false;
    for (size_t i = 0; i < shape.size(); ++i)
      if (isReduced[i])
        index[i] = 0;
  } while (next(index, shape, isReduced, /*overReduced=*/false));
  return true;
}

void scalify::refineMaskedMax(const RangeQuery &query, hlo::ReduceOp op,
                              RangeState &state) {
  if (op.getInputs().size() != 1 ||
      getReductionKind(op.getBody()) != ReductionKind::Max)
    return;
  auto select = op.getInputs()[0].getDefiningOp<hlo::SelectOp>();
  if (!select || query[0].nan)
    return;
  auto predicate = cast<ShapedType>(select.getPred().getType());
  auto full = cast<ShapedType>(select.getType());
  const RangeState &taken = query.lookup(select.getOnTrue());
  // Nothing to gain if the masked elements are no lower.
  if (predicate.getRank() != full.getRank() || taken.lo <= state.lo)
    return;
  SmallVector<bool> isReduced(full.getRank(), false);
  for (int64_t axis : op.getDimensions())
    isReduced[axis] = true;
  if (hasTrueInEachRow(select.getPred(), isReduced))
    state.lo = taken.lo;
}
