//===- Rows.cpp - Structural queries of idioms ----------------------------===//

#include "scalify/Idioms/Rows.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

ReductionKind scalify::getReductionKind(Region &region, unsigned pair) {
  if (!region.hasOneBlock())
    return ReductionKind::Unknown;
  Block &block = region.front();
  Operation *terminator = block.getTerminator();
  unsigned count = block.getNumArguments() / 2;
  if (pair >= count || pair >= terminator->getNumOperands())
    return ReductionKind::Unknown;
  Value a = block.getArgument(pair), b = block.getArgument(pair + count);
  Value value = terminator->getOperand(pair);
  if (value == a)
    return ReductionKind::First;
  if (value == b)
    return ReductionKind::Second;
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumOperands() != 2 ||
      !((op->getOperand(0) == a && op->getOperand(1) == b) ||
        (op->getOperand(0) == b && op->getOperand(1) == a)))
    return ReductionKind::Unknown;
  // On integers these ops reduce each bit separately.
  bool isPredicate = getElementTypeOrSelf(value.getType()).isInteger(1);
  if (isa<hlo::AndOp, hlo::OrOp>(op) && !isPredicate)
    return ReductionKind::Unknown;
  return llvm::TypeSwitch<Operation *, ReductionKind>(op)
      .Case<hlo::AddOp>([](auto) { return ReductionKind::Add; })
      .Case<hlo::MulOp, hlo::AndOp>(
          [](auto) { return ReductionKind::Multiply; })
      .Case<hlo::MaxOp, hlo::OrOp>([](auto) { return ReductionKind::Max; })
      .Case<hlo::MinOp>([](auto) { return ReductionKind::Min; })
      .Default([](Operation *) { return ReductionKind::Unknown; });
}

static constexpr Move kSourceMoves =
    Move::Broadcast | Move::Reshape | Move::Convert | Move::Barrier;

Value scalify::peelToSource(Value value) {
  value = lookThrough(value, kSourceMoves);
  auto max = value.getDefiningOp<hlo::MaxOp>();
  for (unsigned i : {0, 1})
    if (max && matchPattern(max->getOperand(i), m_Constant()))
      return peelToSource(max->getOperand(1 - i));
  return value;
}

Value scalify::skipConverts(Value value) {
  while (auto convert = value.getDefiningOp<hlo::ConvertOp>()) {
    auto from = cast<ShapedType>(convert.getOperand().getType());
    if (!isa<FloatType>(from.getElementType()))
      break;
    value = convert.getOperand();
  }
  return value;
}

FloatType scalify::coarserOf(FloatType a, FloatType b) {
  if (!a || !b)
    return a ? a : b;
  return a.getFPMantissaWidth() < b.getFPMantissaWidth() ? a : b;
}

FloatType scalify::getCoarsest(Value value) {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(value));
  Value before = skipConverts(value);
  while (value != before) {
    value = value.getDefiningOp()->getOperand(0);
    type = coarserOf(type, cast<FloatType>(getElementTypeOrSelf(value)));
  }
  return type;
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
                                 Move::Convert | Move::Barrier);
  DenseFPElementsAttr attr;
  if (!matchPattern(value, m_Constant(&attr)) || !attr.isSplat())
    return std::nullopt;
  return attr.getSplatValue<APFloat>().convertToDouble();
}

RowValue::RowValue(Value full, MatchFor purpose)
    : value(full), purpose(purpose) {
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
  if (purpose == MatchFor::Estimate) {
    value = peelToSource(value);
    return;
  }
  while (Operation *op = value.getDefiningOp()) {
    coarsest =
        coarserOf(coarsest, dyn_cast<FloatType>(getElementTypeOrSelf(value)));
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
               isa<FloatType>(getElementTypeOrSelf(op->getOperand(0)))) {
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

hlo::ReduceOp RowValue::getReduction(Value input, ReductionKind kind) const {
  auto reduce = value.getDefiningOp<hlo::ReduceOp>();
  if (!reduce || reduce.getInputs().size() != 1 ||
      getReductionKind(reduce.getBody()) != kind ||
      !isSame(reduce.getInputs()[0], input))
    return {};
  if (purpose == MatchFor::Estimate)
    return reduce;
  auto shape = cast<ShapedType>(input.getType()).getShape();
  if (shape.size() != axis.size() ||
      (kind == ReductionKind::Add &&
       getSplat(reduce.getInitValues()[0]) != 0.0))
    return {};
  int64_t next = 0;
  for (auto [i, size] : llvm::enumerate(shape)) {
    bool isReduced = llvm::is_contained(reduce.getDimensions(), i);
    if (!isReduced && size != 1 && axis[i] != next)
      return {};
    next += !isReduced;
  }
  return reduce;
}

double scalify::countElements(Value value) {
  return static_cast<double>(
      cast<RankedTensorType>(value.getType()).getNumElements());
}

double scalify::countElements(Value value, ArrayRef<int64_t> dims) {
  auto type = cast<RankedTensorType>(value.getType());
  double size = 1;
  for (int64_t dim : dims)
    size *= static_cast<double>(type.getDimSize(dim));
  return size;
}
