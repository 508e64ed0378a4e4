//===- Rows.cpp - Structural queries of range patterns --------------------===//

#include "Rows.h"

#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

Value scalify::skipConverts(Value value) {
  while (auto convert = value.getDefiningOp<hlo::ConvertOp>()) {
    auto from = cast<ShapedType>(convert.getOperand().getType());
    if (!isa<FloatType>(from.getElementType()))
      break;
    value = convert.getOperand();
  }
  return value;
}

double scalify::getRounding(Value value) {
  double most = 0;
  while (true) {
    Type element = cast<ShapedType>(value.getType()).getElementType();
    most = std::max(most, Rounding::of(element).relative);
    auto convert = value.getDefiningOp<hlo::ConvertOp>();
    if (!convert ||
        !isa<FloatType>(
            cast<ShapedType>(convert.getOperand().getType()).getElementType()))
      return most;
    value = convert.getOperand();
  }
}

// Deep enough for x - mean(x), which a norm may compute twice.
static constexpr int kMaxDepth = 6;

/// True if two values are computed by identical ops from the same values.
static bool isEqual(Value a, Value b, int depth = kMaxDepth) {
  if (a == b)
    return true;
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  if (!x || !y || depth == 0 || a.getType() != b.getType() ||
      x->getName() != y->getName() ||
      x->getNumOperands() != y->getNumOperands() || x->getNumRegions() != 0 ||
      x->getNumResults() != 1 || !isMemoryEffectFree(x) ||
      x->getPropertiesAsAttribute() != y->getPropertiesAsAttribute())
    return false;
  return llvm::all_of(
      llvm::zip(x->getOperands(), y->getOperands()), [&](auto pair) {
        return isEqual(std::get<0>(pair), std::get<1>(pair), depth - 1);
      });
}

bool scalify::isSame(Value a, Value b) {
  return isEqual(skipConverts(a), skipConverts(b));
}

std::optional<double> scalify::getSplat(Value value) {
  value = lookThrough(value, Move::Invariant | Move::Broadcast | Move::Reshape |
                                 Move::Convert);
  DenseFPElementsAttr attr;
  if (!matchPattern(value, m_Constant(&attr)) || !attr.isSplat())
    return std::nullopt;
  return attr.getSplatValue<APFloat>().convertToDouble();
}

RowValue::RowValue(Value full) : value(full) {
  int64_t rank = cast<ShapedType>(full.getType()).getRank();
  axis = llvm::to_vector(llvm::seq<int64_t>(rank));
  skipMoves();
}

RowValue RowValue::follow(Value operand) const {
  RowValue result = *this;
  result.value = operand;
  result.skipMoves();
  return result;
}

void RowValue::skipMoves() {
  auto getElement = [](Value x) {
    return cast<ShapedType>(x.getType()).getElementType();
  };
  while (Operation *op = value.getDefiningOp()) {
    rounding = std::max(rounding, Rounding::of(getElement(value)).relative);
    SmallVector<int64_t> to;
    if (auto broadcast = dyn_cast<hlo::BroadcastInDimOp>(op)) {
      auto from = cast<ShapedType>(broadcast.getOperand().getType());
      auto full = cast<ShapedType>(broadcast.getType());
      to.assign(full.getRank(), -1);
      for (auto [i, dim] : llvm::enumerate(broadcast.getBroadcastDimensions()))
        if (from.getDimSize(i) == full.getDimSize(dim))
          to[dim] = i;
    } else if (isa<hlo::ReshapeOp>(op)) {
      // Only axes of one element may be added or removed.
      auto from = cast<ShapedType>(op->getOperand(0).getType()).getShape();
      auto full = cast<ShapedType>(op->getResult(0).getType()).getShape();
      to.assign(full.size(), -1);
      size_t next = 0;
      for (auto [i, size] : llvm::enumerate(full)) {
        if (size == 1)
          continue;
        while (next < from.size() && from[next] == 1)
          ++next;
        if (next == from.size() || from[next] != size)
          return;
        to[i] = next++;
      }
    } else if (isa<hlo::ConvertOp>(op) &&
               isa<FloatType>(getElement(op->getOperand(0)))) {
      value = op->getOperand(0);
      continue;
    } else {
      return;
    }
    for (int64_t &i : axis)
      i = i < 0 ? -1 : to[i];
    value = op->getOperand(0);
  }
}

bool RowValue::isReductionOf(Value input, ReductionKind kind,
                             AxisSet &axes) const {
  auto reduce = value.getDefiningOp<hlo::ReduceOp>();
  if (!reduce || reduce.getInputs().size() != 1 ||
      getReductionKind(reduce.getBody()) != kind ||
      !isSame(reduce.getInputs()[0], input))
    return false;
  auto shape = cast<ShapedType>(input.getType()).getShape();
  if (shape.size() != axis.size())
    return false;
  axes = 0;
  int64_t next = 0;
  for (auto [i, size] : llvm::enumerate(shape)) {
    bool isReduced = llvm::is_contained(reduce.getDimensions(), i);
    if (isReduced)
      axes |= AxisSet(1) << i;
    else if (size != 1 && axis[i] != next)
      return false;
    next += !isReduced;
  }
  return true;
}

bool RowValue::isSumOver(Value terms, AxisSet &axes) const {
  auto reduce = value.getDefiningOp<hlo::ReduceOp>();
  return isReductionOf(terms, ReductionKind::Add, axes) &&
         getSplat(reduce.getInitValues()[0]) == 0.0;
}

double scalify::countElementsAlong(Value value, AxisSet axes) {
  double n = 1;
  auto shape = cast<ShapedType>(value.getType()).getShape();
  for (auto [i, size] : llvm::enumerate(shape))
    n *= axes >> i & 1 ? size : 1;
  return n;
}
