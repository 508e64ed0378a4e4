//===- ArgumentCorrections.cpp - Run-time scales of arguments -------------===//
//
// The measured size of an argument is a root mean square and not a power of
// two, so that products of many do not accumulate roundings; only the scale of
// each cast is rounded. Sizes may be far from predictions, so corrections
// follow more precise rules than the larger of two scales: variances add in
// sums, and a function's own rule gives the size of its result.
//
//===----------------------------------------------------------------------===//

#include "CorrectionFlow.h"

#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Scaling/MeasuredArguments.h"
#include "scalify/Scaling/Rules.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

#include <cmath>
#include <unordered_map>

using namespace mlir;
using namespace scalify;

// Arguments are divided by 2^-6 before they are squared, and the root is
// multiplied by it: both are exact, and squares of values of any usual size are
// far from the ends of F32. No result depends on the number otherwise.
static constexpr int64_t kTypicalExponent = -6;
// A function's result is sampled for operands of 2^-40 to 2^40 times the
// predicted size. Larger or smaller operands use the nearest sample.
static constexpr int64_t kSampledBinades = 40;
// A result within this many binades of a line needs no table: scales are whole
// binades, of which this is a tenth.
static constexpr double kLinearTolerance = 0.1;
// Scales and their inverses stay normal F32 numbers.
static constexpr double kMaxBinades = 100;

//===----------------------------------------------------------------------===//
// Measurements
//===----------------------------------------------------------------------===//

void CorrectionFlow::findMeasured() {
  auto func = cast<FunctionOpInterface>(block.getParentOp());
  for (BlockArgument arg : block.getArguments())
    if (func.getArgAttr(arg.getArgNumber(), kMeasuredAttr))
      measured.insert(arg);
  moved.insert_range(measured);
  measuresArguments = !measured.empty();
  isFractional |= measuresArguments;
}

/// Measures after the value's definition; an argument's block starts with
/// constants.
Value CorrectionFlow::measureCorrection(Value value) {
  int64_t size = predicted(value);
  Value base = scales.powerOfTwo(kTypicalExponent);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(value);
  if (value.getParentBlock() == &block && isa<BlockArgument>(value))
    builder.setInsertionPointAfterValue(base);
  isMeasured = true;
  auto scale = MeasuredScaleOp::create(builder, value.getLoc(), base.getType(),
                                       Statistic::L2, value, base);
  scale->setAttr(kUnroundedAttr, builder.getUnitAttr());
  return scales.quotient(builder, value.getLoc(), scale,
                         scales.powerOfTwo(size));
}

void CorrectionFlow::measureArguments() {
  for (BlockArgument arg : block.getArguments())
    if (measured.contains(arg) && needed.contains(arg)) {
      readArguments.insert(arg);
      corrections[arg] = measureCorrection(arg);
    }
}

Value CorrectionFlow::getRoundedCorrection(Value value) {
  Value change = getScalarCorrection(value);
  if (!change || !isFractional)
    return change;
  return RoundScaleOp::create(builder, change.getLoc(), change.getType(),
                              change);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Variances add: the root of the mean of both squared corrections, weighted by
/// the squares of the predicted sizes.
void CorrectionFlow::visitSum(Operation &op) {
  Value a = op.getOperand(0), b = op.getOperand(1);
  Value changeA = getScalarCorrection(a), changeB = getScalarCorrection(b);
  if (lookup(b).anyScale)
    changeB = changeA;
  else if (lookup(a).anyScale)
    changeA = changeB;
  if (changeA == changeB) {
    if (changeA)
      corrections[op.getResult(0)] = changeA;
    return;
  }
  Location loc = op.getLoc();
  double sizeA = std::exp2(2.0 * static_cast<double>(predicted(a)));
  double sizeB = std::exp2(2.0 * static_cast<double>(predicted(b)));
  auto square = [&](Value change, double share) {
    if (!change)
      return scales.constant(static_cast<float>(share));
    Value squared = scales.product(builder, loc, change, change);
    return scales.product(builder, loc, squared,
                          scales.constant(static_cast<float>(share)));
  };
  Value sum = stablehlo::AddOp::create(
      builder, loc, square(changeA, sizeA / (sizeA + sizeB)),
      square(changeB, sizeB / (sizeA + sizeB)));
  corrections[op.getResult(0)] = stablehlo::SqrtOp::create(builder, loc, sum);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

bool CorrectionFlow::isFunction(Operation &op) const {
  auto rule = dyn_cast<ScaleRuleInterface>(op);
  return measuresArguments && rule &&
         rule.getScaleFamily() == ScaleFamily::True &&
         op.getNumResults() == 1 && isFloatTensor(op.getResult(0).getType()) &&
         !isa<RescalePointOp, OverrideScaleOp, DataScaleOp>(op);
}

/// Returns the facts of a value that is 2^k times as large.
static ScaleFacts enlarge(ScaleFacts facts, int64_t k) {
  double factor = std::exp2(static_cast<double>(k));
  facts.mean *= factor;
  facts.rms *= factor;
  facts.bound *= factor;
  facts.constant.reset();
  return facts;
}

/// Returns the correction (root) that the op's result is a function of, and the
/// correction (factor) that multiplies it. For g * tanh(x) the root is that of
/// x, and the factor that of g. The root is null if the result is not a
/// function of one correction.
std::pair<Value, Value> CorrectionFlow::getRoot(Operation &op) {
  Value root, factor;
  for (Value operand : op.getOperands())
    if (auto curve = curves.find(operand); curve != curves.end()) {
      if (root && root != curve->second.root)
        return {};
      root = curve->second.root;
    }
  ScaleFamily family = cast<ScaleRuleInterface>(op).getScaleFamily();
  bool isProduct = family == ScaleFamily::Product;
  bool isFirst = true;
  for (Value operand : op.getOperands()) {
    if (!isFloatTensor(operand.getType()) || lookup(operand).anyScale)
      continue;
    auto curve = curves.find(operand);
    Value own = curve != curves.end() ? curve->second.factor
                                      : getScalarCorrection(operand);
    if (!root && own && family == ScaleFamily::True)
      root = own;
    if (own == root)
      own = {};
    if (isProduct && own)
      factor = factor ? scales.product(builder, op.getLoc(), factor, own) : own;
    else if (!isProduct && !isFirst && own != factor)
      return {};
    else if (!isProduct)
      factor = own;
    isFirst = false;
  }
  if (factor && family == ScaleFamily::True)
    return {};
  return {root, factor};
}

/// Infers the facts of the op's result for roots of 2^-40 to 2^40.
CorrectionFlow::Curve CorrectionFlow::sampleRule(Operation &op, Value root,
                                                 Value factor) {
  struct Hash {
    size_t operator()(Value value) const { return hash_value(value); }
  };
  Curve curve{root, factor, {}};
  auto rule = cast<ScaleRuleInterface>(op);
  for (int64_t k = -kSampledBinades; k <= kSampledBinades; ++k) {
    // A rule holds references to facts while it looks up others.
    std::unordered_map<Value, ScaleFacts, Hash> enlarged;
    auto lookup = [&](Value value) -> const ScaleFacts & {
      auto known = curves.find(value);
      if (known != curves.end() && known->second.root == root)
        return known->second.facts[k + kSampledBinades];
      const ScaleFacts &facts = this->lookup(value);
      if (facts.anyScale || correction(value) != root)
        return facts;
      return enlarged.try_emplace(value, enlarge(facts, k)).first->second;
    };
    SmallVector<ScaleFacts> results(op.getNumResults());
    FactsQuery query{&op, lookup};
    rule.inferFacts(query, results);
    inferCompositeFacts(query, results);
    results.front().rule.clear();
    curve.facts.push_back(std::move(results.front()));
  }
  return curve;
}

/// Returns log2 of the size that sets the scale; none if the facts set none.
static std::optional<double> getSize(const ScaleFacts &facts) {
  if (facts.anyScale || !(facts.rms > 0) || !std::isfinite(facts.rms))
    return std::nullopt;
  return facts.scaleByBound ? static_cast<double>(facts.scaleExponent())
                            : std::log2(facts.rms);
}

/// Returns the table index of a correction, by the nearest power of two.
Value CorrectionFlow::getTableIndex(Location loc, Value change) {
  Value &known = tableIndices[{change, builder.getInsertionBlock()}];
  if (known)
    return known;
  auto word = RankedTensorType::get({}, builder.getI32Type());
  auto constant = [&](Type type, auto value) -> Value {
    return stablehlo::buildConstant(builder, loc, type, value);
  };
  auto integer = [&](int32_t value) { return constant(word, value); };
  Value half = constant(change.getType(), std::sqrt(2.0f));
  Value bits = stablehlo::BitcastConvertOp::create(
      builder, loc, word, stablehlo::MulOp::create(builder, loc, change, half));
  Value exponent =
      stablehlo::ShiftRightLogicalOp::create(builder, loc, bits, integer(23));
  Value index = stablehlo::SubtractOp::create(builder, loc, exponent,
                                              integer(127 - kSampledBinades));
  known = stablehlo::ClampOp::create(builder, loc, integer(0), index,
                                     integer(2 * kSampledBinades));
  return known;
}

Value CorrectionFlow::lookUp(Location loc, ArrayRef<float> table,
                             Value change) {
  Value index = getTableIndex(loc, change);
  auto size = static_cast<int64_t>(table.size());
  auto type = RankedTensorType::get({size}, builder.getF32Type());
  Value entries = stablehlo::buildConstant(builder, loc, type, table);
  Value entry = stablehlo::DynamicSliceOp::create(builder, loc, entries, index,
                                                  ArrayRef<int64_t>{1});
  return stablehlo::ReshapeOp::create(builder, loc, change.getType(), entry);
}

/// Sets the correction of a function's result, or of an op on such results, by
/// the rule that predicted it. Returns false if the operands follow different
/// corrections or none.
bool CorrectionFlow::visitFunction(Operation &op) {
  auto [root, factor] = getRoot(op);
  Value result = op.getResult(0);
  if (!root)
    return false;
  Curve curve = sampleRule(op, root, factor);
  Value change;
  if (cast<ScaleRuleInterface>(op).getScaleFamily() == ScaleFamily::Pass) {
    change = correction(op.getOperand(0));
  } else {
    std::optional<double> start = getSize(curve.facts[kSampledBinades]);
    if (!start)
      return false;
    SmallVector<float> table;
    double last = 0, bend = 0, rise = 0;
    for (auto [i, facts] : llvm::enumerate(curve.facts)) {
      last = std::clamp(getSize(facts).value_or(*start + last) - *start,
                        -kMaxBinades, kMaxBinades);
      double k = static_cast<double>(i) - kSampledBinades;
      bend = std::max(bend, std::fabs(last - k));
      rise = std::max(rise, std::fabs(last));
      table.push_back(static_cast<float>(std::exp2(last)));
    }
    if (bend < kLinearTolerance)
      change = root;
    else if (rise >= kLinearTolerance)
      change = lookUp(op.getLoc(), table, root);
    if (change && factor)
      change = scales.product(builder, op.getLoc(), change, factor);
    else if (factor)
      change = factor;
    if (bend < kLinearTolerance && !factor) {
      corrections[result] = change;
      return true;
    }
  }
  if (change)
    corrections[result] = change;
  curves[result] = std::move(curve);
  return true;
}

/// True if an operand of the op has a curve.
bool CorrectionFlow::hasCurveOperand(Operation &op) const {
  if (op.getNumResults() != 1 || stablehlo::isContraction(&op) ||
      !isa<ScaleRuleInterface>(op) || !isFloatTensor(op.getResult(0).getType()))
    return false;
  return llvm::any_of(op.getOperands(),
                      [&](Value operand) { return curves.contains(operand); });
}
