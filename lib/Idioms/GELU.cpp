//===- GELU.cpp - GELU and its gradient in a graph ------------------------===//

#include "scalify/Idioms/GELU.h"

#include "scalify/Idioms/Rows.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

using Polynomial = GELUPattern::Polynomial;

static constexpr double kSlope = 0.7978845608028654; // sqrt(2 / pi)
static constexpr double kCubic = 0.044715;
/// The limit on a term's factors: the longest of the gradient is g x^3 t^2.
static constexpr int kMaxFactors = 8;

static FloatType formatOf(Value value) {
  return dyn_cast<FloatType>(
      cast<ShapedType>(value.getType()).getElementType());
}

/// Rounds a number to the program's format.
static double roundTo(FloatType format, double number) {
  APFloat rounded(number);
  bool isLost;
  rounded.convert(format.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &isLost);
  return rounded.convertToDouble();
}

static Polynomial plus(const Polynomial &a, const Polynomial &b,
                       double factor) {
  Polynomial sum = a;
  for (const auto &[powers, number] : b)
    sum[powers] += factor * number;
  return sum;
}

static std::optional<Polynomial> times(const Polynomial &a,
                                       const Polynomial &b) {
  Polynomial product;
  for (const auto &[left, x] : a)
    for (const auto &[right, y] : b) {
      std::array<int, 3> powers = left;
      int factors = 0;
      for (size_t i = 0; i < powers.size(); ++i)
        factors += powers[i] += right[i];
      if (factors > kMaxFactors)
        return std::nullopt;
      product[powers] += x * y;
    }
  return product;
}

/// True if the polynomials are equal. The tolerance of the cubic's coefficient
/// allows for a program that has the product of our two constants as one
/// constant, rounded once.
static bool isNear(const Polynomial &found, const Polynomial &wanted,
                   FloatType format) {
  constexpr double exact = 1e-9; // up to rounding of sums in F64
  double halfUnit = std::ldexp(1.0, -int(format.getFPMantissaWidth()));
  return llvm::all_of(plus(found, wanted, -1), [&](const auto &term) {
    const auto &[powers, difference] = term;
    auto at = wanted.find(powers);
    if (at == wanted.end())
      return std::abs(difference) <= exact;
    double tolerance = powers[1] == 3 ? 2.25 * halfUnit : exact;
    return std::abs(difference) <= tolerance * std::abs(at->second);
  });
}

//===----------------------------------------------------------------------===//
// Expansion of ops
//===----------------------------------------------------------------------===//

/// True for reshapes, and for conversions between formats of 16 bits or more:
/// the polynomial stays.
static bool isCopy(Operation *op) {
  if (isa<stablehlo::ReshapeOp>(op))
    return true;
  auto convert = dyn_cast<stablehlo::ConvertOp>(op);
  if (!convert)
    return false;
  auto isWide = [](FloatType type) { return type && type.getWidth() >= 16; };
  return isWide(formatOf(convert.getOperand())) && isWide(formatOf(convert));
}

std::optional<Polynomial> GELUPattern::expandOp(Operation *op) {
  if (auto tanh = dyn_cast<stablehlo::TanhOp>(op))
    return isArgument(tanh) ? std::optional(Polynomial{{{0, 0, 1}, 1}})
                            : std::nullopt;
  if (!isCopy(op) && !isa<stablehlo::NegOp, stablehlo::AddOp,
                          stablehlo::SubtractOp, stablehlo::MulOp>(op))
    return std::nullopt;
  SmallVector<Polynomial, 2> operands;
  for (Value operand : op->getOperands()) {
    std::optional<Polynomial> found = expand(operand);
    if (!found)
      return std::nullopt;
    operands.push_back(std::move(*found));
  }
  if (isCopy(op))
    return operands[0];
  if (isa<stablehlo::NegOp>(op))
    return plus({}, operands[0], -1);
  if (isa<stablehlo::MulOp>(op))
    return times(operands[0], operands[1]);
  return plus(operands[0], operands[1], isa<stablehlo::AddOp>(op) ? 1 : -1);
}

std::optional<Polynomial> GELUPattern::expand(Value value) {
  if (auto at = known.find(value); at != known.end())
    return at->second;
  std::optional<Polynomial> found;
  if (isLeaf(value))
    found = Polynomial{
        {value == gradient ? std::array{1, 0, 0} : std::array{0, 1, 0}, 1}};
  else if (auto number = getSplat(value); number && std::isfinite(*number))
    found = Polynomial{{{0, 0, 0}, *number}};
  else if (Operation *op = value.getDefiningOp(); op && formatOf(value))
    found = expandOp(op);
  return known[value] = found;
}

//===----------------------------------------------------------------------===//
// GELU
//===----------------------------------------------------------------------===//

GELUPattern GELUPattern::of(ValueRange inputs) {
  GELUPattern pattern;
  pattern.inputs.insert_range(inputs);
  return pattern;
}

GELUPattern GELUPattern::ofGradient(Value gradient) {
  GELUPattern pattern;
  pattern.gradient = gradient;
  return pattern;
}

bool GELUPattern::isArgument(stablehlo::TanhOp op) {
  std::optional<Polynomial> found = expand(op.getOperand());
  format = formatOf(op);
  double slope = roundTo(format, kSlope), cubic = roundTo(format, kCubic);
  return found &&
         isNear(*found, {{{0, 1, 0}, slope}, {{0, 3, 0}, slope * cubic}},
                format);
}

/// Returns the values that the op is computed from, nearest first.
static SmallVector<Value> makersOf(Operation *last) {
  constexpr size_t most = 128; // a gradient of GELU has about 40
  llvm::SmallSetVector<Value, 32> values;
  values.insert_range(last->getOperands());
  for (size_t i = 0; i < values.size() && i < most; ++i)
    if (Operation *op = values[i].getDefiningOp();
        op && (op->hasTrait<OpTrait::Elementwise>() || isCopy(op)))
      values.insert_range(op->getOperands());
  return values.takeVector();
}

/// Returns the value before it was widened or reshaped.
static Value getSource(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isCopy(op))
    return value;
  auto convert = dyn_cast<stablehlo::ConvertOp>(op);
  bool isNarrowed = convert && formatOf(convert.getOperand()).getWidth() >
                                   formatOf(convert).getWidth();
  return isNarrowed ? value : getSource(op->getOperand(0));
}

/// Searches for the tanh of a GELU, and sets the input to the GELU's operand.
bool GELUPattern::findInput(Operation *last) {
  for (Value value : makersOf(last)) {
    auto tanh = value.getDefiningOp<stablehlo::TanhOp>();
    if (!tanh)
      continue;
    for (Value candidate : makersOf(tanh)) {
      inputs.clear();
      known.clear();
      inputs.insert(getSource(candidate));
      if (!getSplat(candidate) && isArgument(tanh))
        return true;
    }
  }
  return false;
}

bool GELUPattern::match(Operation *last) {
  if (gradient && !findInput(last))
    return false;
  std::optional<Polynomial> found = expand(last->getResult(0));
  if (!found || !format)
    return false;
  double slope = roundTo(format, kSlope) / 2;
  double cubic = 3 * slope * roundTo(format, kCubic);
  // x (1 + t) / 2 and its derivative, where t' = (1 - t^2) (c x + c d x^3)'.
  Polynomial value = {{{0, 1, 0}, 0.5}, {{0, 1, 1}, 0.5}};
  Polynomial derived = {{{1, 0, 0}, 0.5},   {{1, 0, 1}, 0.5},
                        {{1, 1, 0}, slope}, {{1, 1, 2}, -slope},
                        {{1, 3, 0}, cubic}, {{1, 3, 2}, -cubic}};
  if (!isNear(*found, gradient ? derived : value, format))
    return false;
  insert(last);
  return true;
}

void GELUPattern::insert(Operation *root) {
  roots.insert(root);
  SmallVector<Operation *> work{root};
  while (!work.empty())
    for (Value operand : work.pop_back_val()->getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && !isLeaf(operand) && inner.insert(def).second)
        work.push_back(def);
}

bool GELUPattern::isInside(Operation *op) const {
  return roots.contains(op) ||
         (inner.contains(op) && llvm::all_of(op->getUsers(), [&](auto *user) {
            return isInside(user);
          }));
}
