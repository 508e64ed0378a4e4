//===- Rotations.cpp - Rotary embeddings ----------------------------------===//

#include "scalify/Idioms/Idioms.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;
using namespace scalify::idioms;

std::optional<Rotation> idioms::matchRotation(Operation *op, MatchFor purpose) {
  if (!isa_and_nonnull<AddOp, SubtractOp>(op))
    return std::nullopt;
  // The products with the cosine and the sine.
  std::optional<Rotation> part[2];
  for (Value operand : op->getOperands()) {
    auto product = operand.getDefiningOp<MulOp>();
    for (unsigned i : {1, 0}) {
      if (!product)
        return std::nullopt;
      RowValue row(product->getOperand(i), purpose);
      Operation *angle = row.value.getDefiningOp();
      if (!isa_and_nonnull<CosineOp, SineOp>(angle))
        continue;
      // Not followed through moves: the axes are those of the function.
      row.value = angle->getOperand(0);
      Value factor = product->getOperand(1 - i);
      part[isa<SineOp>(angle)] = Rotation{factor, factor, row, row.coarsest};
      break;
    }
  }
  if (!part[0] || !part[1])
    return std::nullopt;
  if (purpose == MatchFor::Proof &&
      (part[0]->angle.axis != part[1]->angle.axis ||
       !isSame(part[0]->angle.value, part[1]->angle.value)))
    return std::nullopt;
  return Rotation{part[0]->a, part[1]->b, part[0]->angle,
                  coarserOf(part[0]->coarsest, part[1]->coarsest)};
}

/// True if two slices of one tensor differ along one axis only, and are
/// disjoint there: halves, or alternating elements.
static bool areDisjointSlices(SliceOp a, SliceOp b, int64_t axis) {
  if (!a || !b || a.getOperand() != b.getOperand())
    return false;
  for (auto [i, start] : llvm::enumerate(a.getStartIndices()))
    if (static_cast<int64_t>(i) != axis &&
        (start != b.getStartIndices()[i] ||
         a.getStrides()[i] != b.getStrides()[i]))
      return false;
  int64_t stride = a.getStrides()[axis];
  int64_t apart = a.getStartIndices()[axis] - b.getStartIndices()[axis];
  return a.getLimitIndices()[axis] <= b.getStartIndices()[axis] ||
         b.getLimitIndices()[axis] <= a.getStartIndices()[axis] ||
         (stride == b.getStrides()[axis] && apart % stride != 0);
}

std::optional<RotatedPair> idioms::matchRotatedPair(ConcatenateOp op) {
  if (op.getInputs().size() != 2)
    return std::nullopt;
  Operation *halves[2] = {op.getInputs()[0].getDefiningOp(),
                          op.getInputs()[1].getDefiningOp()};
  auto first = matchRotation(halves[0], MatchFor::Proof);
  auto second = matchRotation(halves[1], MatchFor::Proof);
  if (!first || !second || first->a != second->b || first->b != second->a ||
      first->angle.axis != second->angle.axis ||
      !isSame(first->angle.value, second->angle.value) ||
      isa<AddOp>(halves[0]) == isa<AddOp>(halves[1]))
    return std::nullopt;
  RotatedPair pair{first->a, first->b, Value(), FloatType()};
  pair.coarsest =
      coarserOf(coarserOf(first->coarsest, second->coarsest),
                coarserOf(getCoarsest(pair.a), getCoarsest(pair.b)));
  auto left = skipConverts(pair.a).getDefiningOp<SliceOp>();
  auto right = skipConverts(pair.b).getDefiningOp<SliceOp>();
  if (areDisjointSlices(left, right, op.getDimension()))
    pair.whole = left.getOperand();
  return pair;
}
