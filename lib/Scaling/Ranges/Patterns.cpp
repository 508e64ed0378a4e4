//===- Patterns.cpp - What several ops together are known to bound --------===//
//
// Where an op relates a value to a function of the same value, the states of
// its operands alone say little. Four relations are recognised, by structure
// and not by name; each holds whatever the value is, so that a bound proved
// here rests on no assumption about it:
//
//   x / sqrt(mean(x^2) + eps)        rows of norm sqrt(n)
//   x - max(x)                       at most 0, and 0 somewhere in each row
//   e / sum(e), e >= 0               convex weights
//   a cos t - b sin t                at most |(a, b)|, and the pair keeps it
//
//===----------------------------------------------------------------------===//

#include "Transfer.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

/// The value behind conversions between float types.
static Value skipConverts(Value value) {
  while (auto convert = value.getDefiningOp<hlo::ConvertOp>()) {
    auto from = cast<ShapedType>(convert.getOperand().getType());
    if (!isa<FloatType>(from.getElementType()))
      break;
    value = convert.getOperand();
  }
  return value;
}

/// The coarsest rounding among the types that the value goes through. Targets
/// may keep the wider one for some uses and round for others.
static double getRounding(Value value) {
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

/// Whether two values are computed alike from the same values.
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

/// The same up to the rounding of conversions, which `getRounding` of both
/// tells. A conversion further up could make any difference.
static bool isSame(Value a, Value b) {
  return isEqual(skipConverts(a), skipConverts(b));
}

/// The one value of all elements of a constant, seen through broadcasts.
static std::optional<double> getSplat(Value value) {
  while (isa_and_nonnull<hlo::BroadcastInDimOp, hlo::ReshapeOp, hlo::ConvertOp>(
      value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  DenseFPElementsAttr attr;
  if (!matchPattern(value, m_Constant(&attr)) || !attr.isSplat())
    return std::nullopt;
  APFloat element = attr.getSplatValue<APFloat>();
  bool lossy;
  element.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
  return element.convertToDouble();
}

namespace {
/// A value that is constant along some axes of a tensor, followed from where
/// it has the tensor's shape up to where it is computed. `axis[i]` is the axis
/// of `value` that axis i of the tensor reads, or -1.
struct RowValue {
  Value value;
  SmallVector<int64_t> axis;
  /// The coarsest rounding on the way.
  double rounding = 0;

  explicit RowValue(Value full) : value(full) {
    int64_t rank = cast<ShapedType>(full.getType()).getRank();
    axis = llvm::to_vector(llvm::seq<int64_t>(rank));
    skipMoves();
  }
  /// The same rows of another value of the same shape.
  RowValue follow(Value operand) const {
    RowValue result = *this;
    result.value = operand;
    result.skipMoves();
    return result;
  }
  void skipMoves();
  bool isSumOver(Value terms, AxisSet &axes) const;
  bool isReductionOf(Value input, ReductionKind kind, AxisSet &axes) const;
};
} // namespace

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
      // Only axes of one element come and go.
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

/// Whether the value is a reduction of `input`, of the tensor's shape, such
/// that each element reads the reduction of its own row.
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

static double countAlong(Value value, AxisSet axes) {
  double n = 1;
  auto shape = cast<ShapedType>(value.getType()).getShape();
  for (auto [i, size] : llvm::enumerate(shape))
    n *= axes >> i & 1 ? size : 1;
  return n;
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

namespace {
/// |x|^2 <= bound^2 over `axes`, times what else the row value has as factor.
struct NormMatch {
  AxisSet axes = 0;
  double bound = 0;
  SmallVector<Value, 2> factors;
};
} // namespace

namespace {
/// scale * sum + eps, at least.
struct Affine {
  double scale = 1, eps = 0;
};
} // namespace

/// Follows a row value through constants added and multiplied, up to a
/// reduction.
static std::optional<Affine> followAffine(RowValue &row) {
  Affine affine;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    Operation *op = row.value.getDefiningOp();
    if (isa_and_nonnull<hlo::ReduceOp>(op))
      return affine;
    if (!isa_and_nonnull<hlo::AddOp, hlo::DivOp, hlo::MaxOp, hlo::MulOp>(op))
      return std::nullopt;
    unsigned constantAt = getSplat(op->getOperand(1)) ? 1 : 0;
    std::optional<double> c = getSplat(op->getOperand(constantAt));
    if (!c || (constantAt == 0 && isa<hlo::DivOp>(op)) || !(*c >= 0))
      return std::nullopt;
    if (isa<hlo::AddOp>(op))
      affine.eps += *c * affine.scale;
    else if (isa<hlo::MaxOp>(op))
      affine.eps = std::max(affine.eps, *c * affine.scale);
    else
      affine.scale *= isa<hlo::DivOp>(op) ? 1 / *c : *c;
    row = row.follow(op->getOperand(1 - constantAt));
  }
  return std::nullopt;
}

/// Whether `row` is c * sum(x * x) + eps.
static bool matchMeanSquare(RowValue row, Value x, NormMatch &match) {
  std::optional<Affine> affine = followAffine(row);
  if (!affine || !(affine->scale > 0) || std::isinf(affine->scale))
    return false;
  auto reduce = row.value.getDefiningOp<hlo::ReduceOp>();
  Value terms = reduce.getInputs()[0];
  auto square = skipConverts(terms).getDefiningOp<hlo::MulOp>();
  if (!square || !isSame(square.getLhs(), square.getRhs()) ||
      !isSame(square.getLhs(), x) || !row.isSumOver(terms, match.axes))
    return false;
  Type element = cast<ShapedType>(square.getType()).getElementType();
  double n = countAlong(x, match.axes);
  // Squares below the smallest normal number may be lost: eps is far above.
  if (!(affine->eps >=
        affine->scale * n * Rounding::of(element).normal * 0x1p20))
    return false;
  double rounding = std::max({row.rounding, getRounding(terms), getRounding(x),
                              getRounding(square.getLhs())});
  double slack =
      Rounding::ofSum(cast<ShapedType>(terms.getType()).getElementType(), n,
                      /*wide=*/false) *
      (1 + 8 * rounding);
  match.bound = slack / std::sqrt(affine->scale);
  return true;
}

/// Whether `row` is rsqrt(mean(x^2) + eps), perhaps times other factors.
static bool matchInverseNorm(RowValue row, Value x, NormMatch &match,
                             int depth = 2) {
  Operation *op = row.value.getDefiningOp();
  if (!op)
    return false;
  if (isa<hlo::RsqrtOp>(op))
    return matchMeanSquare(row.follow(op->getOperand(0)), x, match);
  if (isa<hlo::DivOp>(op) && getSplat(op->getOperand(0))) {
    RowValue root = row.follow(op->getOperand(1));
    auto sqrt = root.value.getDefiningOp<hlo::SqrtOp>();
    if (!sqrt || !matchMeanSquare(root.follow(sqrt.getOperand()), x, match))
      return false;
    match.bound *= std::fabs(*getSplat(op->getOperand(0)));
    return true;
  }
  if (!isa<hlo::MulOp>(op) || depth == 0)
    return false;
  for (unsigned i : {0, 1})
    if (matchInverseNorm(row.follow(op->getOperand(i)), x, match, depth - 1)) {
      match.factors.push_back(op->getOperand(1 - i));
      return true;
    }
  return false;
}

/// x / |x|: the row's norm is at most sqrt(n).
static void refineNorm(const RangeQuery &query, RangeState &state) {
  NormMatch match;
  Value lhs = query.op->getOperand(0), rhs = query.op->getOperand(1);
  bool found = false;
  unsigned row = 1;
  if (isa<hlo::MulOp>(query.op)) {
    found = matchInverseNorm(RowValue(rhs), lhs, match);
    if (!found && (found = matchInverseNorm(RowValue(lhs), rhs, match)))
      row = 0;
  } else {
    RowValue root(rhs);
    auto sqrt = root.value.getDefiningOp<hlo::SqrtOp>();
    found = sqrt && matchMeanSquare(root.follow(sqrt.getOperand()), lhs, match);
  }
  if (!found)
    return;
  double bound = match.bound;
  for (Value factor : match.factors)
    bound = product(bound, query.lookup(factor).maxAbs());
  bound *= 1 + 8 * Rounding::of(query.getElement()).relative;
  if (!(bound < state.getL2(match.axes)))
    return;
  state.addL2(match.axes, bound);
  state.lo = std::max(state.lo, -bound);
  state.hi = std::min(state.hi, bound);
  // Without other factors this holds whatever the operands are.
  state.sources = match.factors.empty() ? 0 : uint64_t(1) << row;
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

/// The value behind select(is_finite(m), m, 0) of what is finite.
static RowValue skipFiniteSelect(const RangeQuery &query, RowValue row) {
  auto select = row.value.getDefiningOp<hlo::SelectOp>();
  if (!select)
    return row;
  auto isFinite = select.getPred().getDefiningOp<hlo::IsFiniteOp>();
  if (isFinite && isFinite.getX() == select.getOnTrue() &&
      query.lookup(select.getOnTrue()).isFinite())
    return row.follow(select.getOnTrue());
  return row;
}

/// The value behind max(c, value), which is no smaller.
static RowValue skipMaximum(RowValue row) {
  while (auto max = row.value.getDefiningOp<hlo::MaxOp>()) {
    if (getSplat(max.getLhs()))
      row = row.follow(max.getRhs());
    else if (getSplat(max.getRhs()))
      row = row.follow(max.getLhs());
    else
      break;
  }
  return row;
}

/// x - max(x) is at most zero, exactly: rounding keeps the order.
static void refineMinusMax(const RangeQuery &query, RangeState &state) {
  Value x = query.op->getOperand(0);
  RowValue row = skipFiniteSelect(query, RowValue(query.op->getOperand(1)));
  RowValue inner = skipMaximum(row);
  AxisSet axes;
  if (!inner.isReductionOf(x, ReductionKind::Max, axes))
    return;
  const RangeState &largest = query[1];
  // Of narrow types one side may have been rounded and the other not.
  double rounding = std::max(getRounding(x), inner.rounding);
  double slack = 0;
  Rounding single = Rounding::of(Float32Type::get(x.getContext()));
  if (rounding >
      std::min(Rounding::of(query.getElement()).relative, single.relative))
    slack = 2 * rounding * largest.maxAbs();
  if (std::isinf(slack))
    return;
  state.hi = std::min(state.hi, slack);
  // From a finite maximum nothing infinite but a mask differs.
  if (largest.isFinite() && !query[0].nan &&
      query[0].hi < RangeState::infinity())
    state.nan = false;
  // max(-inf, m) is m.
  bool isAttained = inner.value == row.value;
  if (auto max = row.value.getDefiningOp<hlo::MaxOp>())
    for (Value operand : max->getOperands())
      isAttained |= getSplat(operand) == -RangeState::infinity();
  Value init = inner.value.getDefiningOp<hlo::ReduceOp>().getInitValues()[0];
  if (isAttained && getSplat(init) == -RangeState::infinity())
    state.peak = NormBound{axes, -slack};
}

/// e / sum(e), where the sum is not lost: weights that sum to one.
static void refineShare(const RangeQuery &query, RangeState &state) {
  Value e = query.op->getOperand(0);
  RowValue row(query.op->getOperand(1));
  AxisSet axes;
  if (!query[0].isNonNegative() || !row.isSumOver(e, axes))
    return;
  Type element = query.getElement();
  if (query[1].lo < Rounding::of(element).normal)
    return;
  auto sum = cast<ShapedType>(row.value.getType()).getElementType();
  double slack = Rounding::ofSum(sum, countAlong(e, axes), /*wide=*/false) *
                 (1 + 8 * std::max(getRounding(e), row.rounding));
  state.lo = std::max(state.lo, 0.0);
  state.hi = std::min(state.hi, slack);
  state.addL1(axes, slack);
  // An exponential is never negative, whatever it is of.
  if (isa_and_nonnull<hlo::ExpOp>(skipConverts(e).getDefiningOp()))
    state.sources = 0;
  else
    state.sources = 1;
}

//===----------------------------------------------------------------------===//
// Rotary embedding and SiLU
//===----------------------------------------------------------------------===//

namespace {
/// a * cos(t) +- b * sin(t).
struct Rotation {
  Value a, b, angle;
  SmallVector<int64_t> axis;
  /// What sine and cosine are off by, relative.
  double rounding;
};
} // namespace

/// The angle and whether it is a cosine, if the value is one, moved about.
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

/// cos^2 + sin^2 = 1: in each element at most |(a, b)|.
static void refineRotation(const RangeQuery &query, RangeState &state) {
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

/// Whether two slices of one tensor differ along one axis only, and there
/// share no element: halves, or every other one.
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

/// Two halves of a rotated pair, joined: the pair's norm stays. If the halves
/// were the two slices of one tensor, that is the tensor's norm.
static void refineRotatedPair(const RangeQuery &query, hlo::ConcatenateOp op,
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

/// x * logistic(x) is at least -0.2785.
static void refineSiLU(const RangeQuery &query, RangeState &state) {
  for (unsigned i : {0, 1}) {
    auto logistic = query.op->getOperand(i).getDefiningOp<hlo::LogisticOp>();
    Value x = query.op->getOperand(1 - i);
    if (!logistic || !isSame(logistic.getOperand(), x))
      continue;
    double rounding =
        std::max({getRounding(x), getRounding(logistic.getOperand()),
                  Rounding::of(query.getElement()).relative});
    state.lo = std::max(state.lo, -0.2785 * (1 + 8 * rounding));
  }
}

void scalify::refineByPattern(const RangeQuery &query, RangeState &state) {
  if (!query.isFloat())
    return;
  if (auto op = dyn_cast<hlo::ReduceOp>(query.op))
    refineMaskedMax(query, op, state);
  if (isa<hlo::MulOp, hlo::DivOp>(query.op))
    refineNorm(query, state);
  if (isa<hlo::DivOp>(query.op))
    refineShare(query, state);
  if (isa<hlo::MulOp>(query.op))
    refineSiLU(query, state);
  if (isa<hlo::SubtractOp>(query.op))
    refineMinusMax(query, state);
  if (isa<hlo::AddOp, hlo::SubtractOp>(query.op))
    refineRotation(query, state);
  if (auto op = dyn_cast<hlo::ConcatenateOp>(query.op))
    refineRotatedPair(query, op, state);
}
