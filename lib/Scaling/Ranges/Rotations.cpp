//===- Rotations.cpp - Bounds of rotary embeddings ------------------------===//

#include "Rows.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

namespace {
/// a * cos(t) +- b * sin(t).
struct Rotation {
  Value a, b, angle;
  SmallVector<int64_t> axis;
  /// The relative rounding of sine and cosine.
  double rounding;
};
} // namespace

/// Matches a moved sine or cosine. Sets its angle, and which of the two it is.
static bool matchAngle(Value value, bool &isCosine, RowValue &row) {
  row = RowValue(value);
  Operation *op = row.value.getDefiningOp();
  if (!isa_and_nonnull<hlo::CosineOp, hlo::SineOp>(op))
    return false;
  isCosine = isa<hlo::CosineOp>(op);
  row.value = op->getOperand(0);
  return true;
}

static std::optional<Rotation> matchRotation(Operation *op) {
  if (!isa_and_nonnull<hlo::AddOp, hlo::SubtractOp>(op))
    return std::nullopt;
  Value factor[2];
  bool isCosine[2];
  RowValue angle[2] = {RowValue(op->getOperand(0)),
                       RowValue(op->getOperand(1))};
  for (unsigned i : {0, 1}) {
    auto mul = op->getOperand(i).getDefiningOp<hlo::MulOp>();
    if (!mul)
      return std::nullopt;
    if (matchAngle(mul.getRhs(), isCosine[i], angle[i]))
      factor[i] = mul.getLhs();
    else if (matchAngle(mul.getLhs(), isCosine[i], angle[i]))
      factor[i] = mul.getRhs();
    else
      return std::nullopt;
  }
  if (isCosine[0] == isCosine[1] || angle[0].axis != angle[1].axis ||
      !isSame(angle[0].value, angle[1].value))
    return std::nullopt;
  unsigned cosine = isCosine[0] ? 0 : 1;
  return Rotation{factor[cosine], factor[1 - cosine], angle[0].value,
                  angle[0].axis,
                  std::max(angle[0].rounding, angle[1].rounding)};
}

// Rounding of two products and a sum, and of sine and cosine, which targets
// approximate to an absolute error.
static constexpr double kRotationSlack = 1 + 0x1p-16;

static double getRotationSlack(Type element, double rounding) {
  rounding = std::max(rounding, Rounding::of(element).relative);
  return kRotationSlack * (1 + 8 * rounding);
}

/// cos^2 + sin^2 = 1: each element is at most |(a, b)|.
void scalify::refineRotation(const RangeQuery &query, RangeState &state) {
  std::optional<Rotation> rotation = matchRotation(query.op);
  if (!rotation)
    return;
  double slack = getRotationSlack(query.getElement(), rotation->rounding);
  const RangeState &a = query.lookup(rotation->a);
  const RangeState &b = query.lookup(rotation->b);
  double most = std::hypot(a.maxAbs(), b.maxAbs()) * slack;
  state.lo = std::max(state.lo, -most);
  state.hi = std::min(state.hi, most);
  for (const RangeState *side : {&a, &b})
    for (AxisSet axes : side->getNormAxes())
      state.addL2(axes, std::hypot(a.getL2(axes), b.getL2(axes)) * slack);
}

/// True if two slices of one tensor differ along one axis only, and are
/// disjoint there: halves, or alternating elements.
static bool areDisjointSlices(hlo::SliceOp a, hlo::SliceOp b, int64_t axis) {
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

/// The two halves of a rotated pair, concatenated, keep the pair's norm. If the
/// halves were two slices of one tensor, that is the tensor's norm.
void scalify::refineRotatedPair(const RangeQuery &query, hlo::ConcatenateOp op,
                                RangeState &state) {
  if (op.getInputs().size() != 2)
    return;
  auto first = matchRotation(op.getInputs()[0].getDefiningOp());
  auto second = matchRotation(op.getInputs()[1].getDefiningOp());
  bool isPair = first && second && first->a == second->b &&
                first->b == second->a && first->axis == second->axis &&
                isSame(first->angle, second->angle) &&
                isa<hlo::AddOp>(op.getInputs()[0].getDefiningOp()) !=
                    isa<hlo::AddOp>(op.getInputs()[1].getDefiningOp());
  if (!isPair)
    return;
  double rounding = std::max({first->rounding, second->rounding,
                              getRounding(first->a), getRounding(first->b)});
  double slack = getRotationSlack(query.getElement(), rounding);
  const RangeState &a = query.lookup(first->a), &b = query.lookup(first->b);
  AxisSet joined = AxisSet(1) << op.getDimension();
  SmallVector<AxisSet, 8> candidates{joined};
  for (const RangeState *side : {&a, &b})
    for (AxisSet axes : side->getNormAxes())
      candidates.push_back(axes | joined);
  auto left = skipConverts(first->a).getDefiningOp<hlo::SliceOp>();
  auto right = skipConverts(first->b).getDefiningOp<hlo::SliceOp>();
  bool isSplit = areDisjointSlices(left, right, op.getDimension());
  for (AxisSet axes : candidates) {
    double norm = std::hypot(a.getL2(axes), b.getL2(axes));
    if (isSplit)
      norm = std::min(norm, query.lookup(left.getOperand()).getL2(axes));
    state.addL2(axes, norm * slack);
  }
}
