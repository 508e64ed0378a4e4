//===- Masks.cpp - Rules of booleans, integers and selects ----------------===//

#include "scalify/Scaling/Rules.h"

#include "Moments.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

using Results = MutableArrayRef<ScaleFacts>;

static Type getElement(Value value) {
  return cast<ShapedType>(value.getType()).getElementType();
}

static ScaleFacts booleanOf(double density) {
  density = std::clamp(density, 0.0, 1.0);
  ScaleFacts facts = ScaleFacts::moments(density, density - density * density);
  facts.density = density;
  facts.bound = 1.0;
  facts.sign = Sign::NonNegative;
  return facts;
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

/// Pass between the wide types. A cast to FP8, to an integer, or to a type
/// without scales reads the true value.
static ScaleFamily convertFamily(Operation *op) {
  auto isWide = [](Type type) {
    return isa<Float32Type, Float16Type, BFloat16Type>(type);
  };
  return isWide(getElement(op->getOperand(0))) &&
                 isWide(getElement(op->getResult(0)))
             ? ScaleFamily::Pass
             : ScaleFamily::True;
}

static void convertFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &x = query.operand(0);
  Type from = getElement(query.op->getOperand(0));
  out[0] = x;
  out[0].rule = "convert";
  if (from.isInteger(1) && isa<FloatType>(getElement(query.op->getResult(0)))) {
    out[0] = booleanOf(x.density);
    out[0].indicator = true;
    // A one-hot or a sparse mask: few ones matter.
    out[0].scaleByBound = x.density < 0.1;
    out[0].density = 1.0;
    out[0].rule = "mask: density";
  } else if (isa<FloatType>(from) &&
             !isa<FloatType>(getElement(query.op->getResult(0)))) {
    out[0].masked = out[0].anyScale = out[0].scaleByBound = false;
    out[0].constant.reset();
  }
}

/// Random mantissas under the exponent of 1 (jax.random) are uniform in
/// [1, 2); nothing is known of other bits.
static void bitcastFacts(const FactsQuery &query, Results out) {
  out[0].rule = "bitcast_convert";
  if (!isa<FloatType>(getElement(query.op->getResult(0))))
    return;
  auto join = query.op->getOperand(0).getDefiningOp<stablehlo::OrOp>();
  if (!join)
    return;
  auto isExponentOfOne = [](Value value) {
    DenseElementsAttr bits;
    if (!matchPattern(peelToSource(value), m_Constant(&bits)) ||
        !bits.isSplat() || !isa<IntegerType>(bits.getElementType()))
      return false;
    uint64_t word = bits.getSplatValue<APInt>().getZExtValue();
    return word == 0x3f800000 || word == 0x3c00 || word == 0x3f80 ||
           word == 0x3ff0000000000000;
  };
  if (!isExponentOfOne(join.getLhs()) && !isExponentOfOne(join.getRhs()))
    return;
  out[0] = ScaleFacts::moments(1.5, 1.0 / 12);
  out[0].bound = 2.0;
  out[0].sign = Sign::NonNegative;
  out[0].rule = "bitcast_convert: uniform in [1, 2)";
}

//===----------------------------------------------------------------------===//
// Comparisons and logic
//===----------------------------------------------------------------------===//

/// If `value` is the largest or smallest element of `x` in each row, returns
/// the number of elements of a row.
static std::optional<double> getWidthOfExtremum(Value value, Value x) {
  auto reduce = peelToSource(value).getDefiningOp<stablehlo::ReduceOp>();
  if (!reduce || peelToSource(reduce.getInputs()[0]) != peelToSource(x) ||
      !isa<stablehlo::MaxOp, stablehlo::MinOp>(
          reduce.getBody().front().front()))
    return std::nullopt;
  return countElements(reduce.getInputs()[0]) /
         std::max(1.0, countElements(reduce->getResult(0)));
}

/// Returns the share of equal pairs.
static double densityOfEquality(const FactsQuery &query) {
  Value lhs = query.op->getOperand(0), rhs = query.op->getOperand(1);
  if (lhs == rhs)
    return 1.0;
  for (auto [side, other] : {std::pair(lhs, rhs), std::pair(rhs, lhs)}) {
    if (auto iota = peelToSource(side).getDefiningOp<stablehlo::IotaOp>())
      return 1.0 / std::max(1.0, query.of(iota).bound + 1);
    if (std::optional<double> n = getWidthOfExtremum(side, other))
      return 1.0 / std::max(1.0, *n);
    // Infinities and NaN are assumed not to occur, nor zeros among real
    // numbers. Nothing is known of masks that the step takes as integers.
    const ScaleFacts &facts = query.of(side);
    if (facts.anyScale && facts.constant && isa<FloatType>(getElement(side)))
      return 0.0;
  }
  return 0.5;
}

/// Returns the share of pairs with a < b: of normal values, else one half.
static double densityOfOrder(const FactsQuery &query) {
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  if (!isa<FloatType>(getElement(query.op->getOperand(0))))
    return 0.5;
  if (a.constant && !std::isfinite(*a.constant))
    return *a.constant < 0 ? 1.0 : 0.0;
  if (b.constant && !std::isfinite(*b.constant))
    return *b.constant > 0 ? 1.0 : 0.0;
  double deviation = std::sqrt(a.variance() + b.variance());
  if (deviation <= 0)
    return a.mean < b.mean ? 1.0 : (a.mean > b.mean ? 0.0 : 0.5);
  return normalBelow((b.mean - a.mean) / deviation);
}

/// Returns the share of non-zeros in sparse data that is nowhere negative. A
/// value v in a share p of the places has mean p * v and mean square p * v * v.
static std::optional<double> densityOfNonZeros(const FactsQuery &query) {
  const ScaleFacts &x = query.operand(0), &zero = query.operand(1);
  if (zero.constant != 0.0 || x.sign != Sign::NonNegative || x.rms <= 0 ||
      !isa<FloatType>(getElement(query.op->getOperand(0))))
    return std::nullopt;
  double share = x.mean * x.mean / (x.rms * x.rms);
  // A dense positive value has a share beyond that of a half-normal, 2 / pi.
  return share < 0.25 ? std::optional<double>(share) : std::nullopt;
}

static void compareFacts(const FactsQuery &query, Results out) {
  using stablehlo::ComparisonDirection;
  double density = 0.5;
  auto compare = cast<stablehlo::CompareOp>(query.op);
  switch (compare.getComparisonDirection()) {
  case ComparisonDirection::EQ:
    density = densityOfEquality(query);
    break;
  case ComparisonDirection::NE:
    density = densityOfNonZeros(query).value_or(1 - densityOfEquality(query));
    break;
  case ComparisonDirection::LT:
  case ComparisonDirection::LE:
    density = densityOfOrder(query);
    break;
  case ComparisonDirection::GT:
  case ComparisonDirection::GE:
    density = 1 - densityOfOrder(query);
    break;
  }
  if (compare.getComparisonDirection() == ComparisonDirection::GT)
    density = densityOfNonZeros(query).value_or(density);
  out[0] = booleanOf(density);
  out[0].rule = "comparison";
}

/// Sets the share of true booleans. Integers have no facts.
static void logicFacts(const FactsQuery &query, Results out) {
  out[0].rule = shortName(query.op);
  if (!getElement(query.op->getResult(0)).isInteger(1))
    return;
  double p = query.operand(0).density;
  double q = query.op->getNumOperands() > 1 ? query.operand(1).density : p;
  if (isa<stablehlo::AndOp>(query.op))
    p = p * q;
  else if (isa<stablehlo::OrOp>(query.op))
    p = p + q - p * q;
  else if (isa<stablehlo::XorOp>(query.op))
    p = p + q - 2 * p * q;
  else
    p = 1 - p;
  out[0] = booleanOf(p);
  out[0].rule = shortName(query.op);
}

static void isFiniteFacts(const FactsQuery &, Results out) {
  out[0] = booleanOf(1.0);
  out[0].rule = "is_finite: true";
}

static void bitFacts(const FactsQuery &query, Results out) {
  for (ScaleFacts &result : out)
    result.rule = shortName(query.op);
}

/// Returns the values that have elements of what `use` reads among theirs.
static SmallVector<Value> getReached(OpOperand &use) {
  Operation *op = use.getOwner();
  unsigned index = use.getOperandNumber();
  if (isa<stablehlo::AddOp, stablehlo::SubtractOp, stablehlo::MulOp,
          stablehlo::NegOp, stablehlo::ConvertOp, stablehlo::ReshapeOp,
          stablehlo::TransposeOp, stablehlo::SliceOp,
          stablehlo::BroadcastInDimOp, stablehlo::ReverseOp, stablehlo::PadOp,
          stablehlo::ConcatenateOp, stablehlo::DynamicSliceOp,
          stablehlo::DynamicUpdateSliceOp, ScaleHintOp>(op) ||
      (isa<stablehlo::DivOp>(op) && index == 0))
    return {op->getResult(0)};
  Operation *parent = op->getParentOp();
  if (isa<stablehlo::ReturnOp>(op) &&
      isa<stablehlo::IfOp, stablehlo::CaseOp>(parent))
    return {parent->getResult(index)};
  auto loop = dyn_cast<stablehlo::WhileOp>(op);
  if (!loop && isa<stablehlo::ReturnOp>(op) &&
      op->getParentRegion()->getRegionNumber() == 1)
    loop = dyn_cast<stablehlo::WhileOp>(parent);
  if (loop)
    return {loop->getResult(index), loop.getBody().getArgument(index)};
  return {};
}

bool scalify::isReadByProducts(Value value) {
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i)
    for (OpOperand &use : reached[i].getUses()) {
      if (stablehlo::isContraction(use.getOwner()))
        return true;
      reached.insert_range(getReached(use));
    }
  return false;
}

/// True for a select between 0 and a masking constant that products read: a
/// matrix with that constant on its diagonal.
static bool selectsData(const FactsQuery &query) {
  const ScaleFacts &a = query.operand(1), &b = query.operand(2);
  return ((a.constant == 0.0 && isMaskingConstant(b, a)) ||
          (b.constant == 0.0 && isMaskingConstant(a, b))) &&
         isReadByProducts(query.op->getResult(0));
}

static void selectFacts(const FactsQuery &query, Results out) {
  double share = query.operand(0).density;
  out[0] = (selectsData(query) ? mixData : mixFacts)(query.operand(1), share,
                                                     query.operand(2));
  // A result without size contradicts the density: take one half instead.
  if (out[0].rms == 0 && !out[0].anyScale && !out[0].masked)
    out[0] = mixFacts(query.operand(1), 0.5, query.operand(2));
  // A 0 beside a masking constant is an additive mask, not a constant.
  out[0].constant.reset();
  out[0].rule = "select: density of the mask";
}

void scalify::attachMaskRules(MLIRContext *context) {
  using namespace stablehlo;
  attachRule<convertFamily, convertFacts, ConvertOp>(context);
  attachRule<ScaleFamily::True, bitcastFacts, BitcastConvertOp>(context);
  attachRule<ScaleFamily::True, compareFacts, CompareOp>(context);
  attachRule<ScaleFamily::True, isFiniteFacts, IsFiniteOp>(context);
  attachRule<ScaleFamily::Align, selectFacts, SelectOp>(context);
  attachRule<ScaleFamily::Untouched, logicFacts, AndOp, OrOp, XorOp, NotOp>(
      context);
  attachRule<ScaleFamily::Untouched, bitFacts, ShiftLeftOp, ShiftRightLogicalOp,
             ShiftRightArithmeticOp, ClzOp, PopulationCountOp>(context);
}
