//===- AttentionPattern.cpp - Dots around a softmax -----------------------===//

#include "AttentionParts.h"
#include "OpCosts.h"

#include "scalify/Idioms/Idioms.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;
using namespace scalify::attention;

/// A mask value below this gives a weight of exactly zero beside any score.
static constexpr double kMasked = -1e9;

namespace {
class Matcher {
public:
  Matcher(DivOp weights, std::string &why) : weights(weights), why(why) {}
  std::optional<AttentionPattern> match();

private:
  bool fail(const Twine &reason) {
    if (why.empty())
      why = reason.str();
    return false;
  }
  bool hasWeightsDot();
  bool matchSoftmax(Value &scores);
  bool matchScores(Value scores);
  bool nameAxes(const Scaled &scaled, std::optional<CausalMask> mask);
  bool matchUses();
  bool matchWeightsUse(const ScaledUse &use);
  Value matchQuotientGradient(Value factor, MulOp &inner) const;
  bool matchGradient(const ScaledUse &use, bool ofWeights);
  bool matchGradientDots(Value gradient, double factor);
  bool checkShares();
  bool isMaskOfWeights(SelectOp select) const;
  Axes permuted(ArrayRef<int64_t> order) const;
  bool isWeights(const ScaledUse &use) const {
    return use.form.factor == 1 && llvm::is_sorted(use.form.order);
  }

  DivOp weights;
  std::string &why;
  AttentionPattern pattern;
  Axes axes; // of the weights
  int64_t keyDim = -1;
  Value raised, rowSum; // exp(x - max(x)), and its sum
  SmallVector<AttentionDot> gradientsOfV;
  SmallVector<Operation *> products; // of the weights with their gradient
};
} // namespace

Axes Matcher::permuted(ArrayRef<int64_t> order) const {
  Axes result;
  for (int64_t d : order)
    result.push_back(axes[d]);
  return result;
}

/// Matches a softmax along one dimension; sets `scores` to its operand. Its
/// values must be read as they are, and not by way of conversions, since the
/// pass replaces them.
bool Matcher::matchSoftmax(Value &scores) {
  std::optional<idioms::Softmax> softmax = idioms::matchSoftmax(weights);
  if (!softmax)
    return false;
  ReduceOp sum = softmax->share.sum, most = softmax->shift.max;
  raised = weights.getLhs();
  rowSum = sum.getResult(0);
  scores = softmax->shift.input;
  if (softmax->exponentials.getResult() != raised ||
      sum.getInputs()[0] != raised || most.getInputs()[0] != scores ||
      !softmax->shift.isAttained || softmax->shift.ifFinite ||
      sum.getDimensions().size() != 1 ||
      sum.getDimensions() != most.getDimensions())
    return false;
  keyDim = sum.getDimensions().front();
  return getRowValue(weights.getRhs(), keyDim) == rowSum;
}

/// True if a dot reads the weights: that of an attention, as opposed to a loss
/// or a router.
bool Matcher::hasWeightsDot() {
  auto uses = traceUses(weights.getResult(), [](SelectOp) { return false; });
  return llvm::any_of(uses, [](const ScaledUse &use) {
    return isa<DotGeneralOp>(use.use->getOwner());
  });
}

bool Matcher::matchScores(Value scores) {
  std::optional<CausalMask> mask;
  bool isMasked = false;
  auto select = scores.getDefiningOp<SelectOp>();
  if (select) {
    isMasked = true;
    mask = matchCausalMask(select.getPred());
    bool isNegated = mask && mask->isNegated;
    Value low = isNegated ? select.getOnTrue() : select.getOnFalse();
    scores = isNegated ? select.getOnFalse() : select.getOnTrue();
    std::optional<double> number = getSplatNumber(low);
    if (!number || *number > kMasked)
      mask.reset();
  }
  auto found = traceToDot(scores);
  if (!found)
    return fail("its scores are no product of queries and keys times a "
                "constant");
  if (found->first.getDotDimensionNumbers().getLhsBatchingDimensions().empty())
    return false; // a router
  pattern.scores = found->first;
  pattern.scale = found->second.factor;
  if (isMasked && !mask)
    return fail("its mask is not causal");
  pattern.isCausal = isMasked;
  return nameAxes(found->second, mask);
}

/// Names the dimensions of the weights by their roles in the dot of the scores.
bool Matcher::nameAxes(const Scaled &scaled, std::optional<CausalMask> mask) {
  size_t batches =
      pattern.scores.getDotDimensionNumbers().getLhsBatchingDimensions().size();
  size_t rank = scaled.order.size();
  if (batches > 2)
    return fail("it has " + Twine(batches) + " batch dimensions");
  axes.assign(rank, Axis::Group);
  int64_t query = mask ? mask->row : -1, numBatch = 0, numGroups = 0;
  for (size_t d = 0; d < rank; ++d)
    if (scaled.order[d] < int64_t(batches))
      axes[d] = numBatch++ == 0 && batches == 2 ? Axis::Batch : Axis::KeyHead;
    else if (int64_t(d) != keyDim && !mask)
      query = d; // the last of the queries' dimensions
  axes[keyDim] = Axis::Key;
  if (query < 0 || axes[query] != Axis::Group ||
      (mask && mask->column != keyDim))
    return fail("its mask is not causal");
  axes[query] = Axis::Query;
  numGroups = llvm::count(axes, Axis::Group);
  if (numGroups > 1)
    return fail("its queries have dimensions besides groups of heads and "
                "positions");
  Axes result(rank, Axis::Group);
  for (size_t d = 0; d < rank; ++d)
    result[scaled.order[d]] = axes[d];
  if (!matchChannelDot(pattern.scores, result, pattern.q, pattern.k))
    return fail("its scores are no product of queries and keys");
  return true;
}

bool Matcher::isMaskOfWeights(SelectOp select) const {
  std::optional<CausalMask> mask = matchCausalMask(select.getPred());
  if (!pattern.isCausal || !mask || mask->column != keyDim ||
      axes[mask->row] != Axis::Query)
    return false;
  Value masked = mask->isNegated ? select.getOnTrue() : select.getOnFalse();
  return getSplatNumber(masked) == 0.0;
}

bool Matcher::matchWeightsUse(const ScaledUse &use) {
  auto mix = matchMixDot(*use.use, permuted(use.form.order));
  if (!mix)
    return isa<MulOp>(use.use->getOwner()) && isWeights(use);
  mix->factor = use.form.factor;
  bool sumsKeys = !llvm::is_contained(mix->axes, Axis::Key);
  bool keepsQueries = llvm::is_contained(mix->axes, Axis::Query);
  if (sumsKeys && keepsQueries) {
    if (pattern.mix)
      return fail("its weights mix two tensors of values");
    pattern.mix = *mix;
    return true;
  }
  if (sumsKeys || keepsQueries || llvm::is_contained(mix->axes, Axis::Group))
    return false;
  gradientsOfV.push_back(*mix);
  return true;
}

/// Matches `factor` as (g - sum(w * g)) of the gradient w * (g - sum(w * g)),
/// with the weights w; returns g and sets `inner` to w * g.
static Value matchWeightsGradient(Value factor, int64_t row, MulOp &inner) {
  auto sub = factor.getDefiningOp<SubtractOp>();
  ReduceOp sum = sub ? matchRowSum(sub.getRhs(), row) : ReduceOp();
  inner = sum ? sum.getInputs()[0].getDefiningOp<MulOp>() : MulOp();
  return inner && llvm::is_contained(inner->getOperands(), sub.getLhs())
             ? sub.getLhs()
             : Value();
}

/// Matches 1 / (sum * sum).
static bool isInverseSquare(Value value, Value sum) {
  auto div = value ? value.getDefiningOp<DivOp>() : DivOp();
  auto square = div ? div.getRhs().getDefiningOp<MulOp>() : MulOp();
  return square && getSplatNumber(div.getLhs()) == 1.0 &&
         skipViews(square.getLhs()) == sum && skipViews(square.getRhs()) == sum;
}

/// JAX's gradient of e / s, s = sum(e), is e * (g / s - sum(g * e / s^2)).
/// Matches `factor` as its second factor, returns g, and sets `inner` to the
/// product under the sum.
Value Matcher::matchQuotientGradient(Value factor, MulOp &inner) const {
  auto add = factor.getDefiningOp<AddOp>();
  auto share = add ? add.getLhs().getDefiningOp<DivOp>() : DivOp();
  if (!share || getRowValue(share.getRhs(), keyDim) != rowSum)
    return {};
  ReduceOp sum = matchNegatedSum(getRowValue(add.getRhs(), keyDim), keyDim);
  inner = sum ? sum.getInputs()[0].getDefiningOp<MulOp>() : MulOp();
  if (!inner)
    return {};
  for (Value operand : inner->getOperands()) {
    Value other = getOtherFactor(operand, share.getLhs());
    if (other && isInverseSquare(getRowValue(other, keyDim), rowSum))
      return share.getLhs();
  }
  return {};
}

/// Matches the gradient of the scores: one of `products`, which reads `use`.
bool Matcher::matchGradient(const ScaledUse &use, bool ofWeights) {
  auto product = cast<MulOp>(use.use->getOwner());
  Value factor = product->getOperand(1 - use.use->getOperandNumber());
  MulOp inner;
  Value gradient = ofWeights ? matchWeightsGradient(factor, keyDim, inner)
                             : matchQuotientGradient(factor, inner);
  if (!gradient || !llvm::is_contained(products, inner) ||
      !inner.getResult().hasOneUse() || pattern.gradient)
    return false;
  auto found = traceToDot(gradient);
  if (!found)
    return false;
  AttentionGradient &place = pattern.gradient.emplace();
  place.weights = found->first;
  Axes result(axes.size(), Axis::Group);
  for (auto [d, from] : llvm::enumerate(found->second.order))
    result[from] = axes[d];
  if (!matchChannelDot(found->first, result, place.grad, place.v))
    return fail("the gradient of its weights is no product of a gradient and "
                "values");
  llvm::erase(products, inner);
  llvm::erase(products, product);
  return matchGradientDots(product.getResult(), found->second.factor);
}

bool Matcher::matchGradientDots(Value gradient, double factor) {
  auto isMask = [&](SelectOp select) { return isMaskOfWeights(select); };
  for (const ScaledUse &use : traceUses(gradient, isMask)) {
    auto mix = matchMixDot(*use.use, permuted(use.form.order));
    if (!mix)
      return fail("the gradient of its scores is read by '" +
                  use.use->getOwner()->getName().getStringRef() + "'");
    // The library multiplies by the scale of the scores itself.
    mix->factor = factor * use.form.factor / pattern.scale;
    bool isOfQueries = llvm::is_contained(mix->axes, Axis::Query);
    AttentionDot &place =
        isOfQueries ? pattern.gradient->q : pattern.gradient->k;
    bool isOfKeys = llvm::is_contained(mix->axes, Axis::Key);
    if (place.op || isOfQueries == isOfKeys ||
        (isOfKeys && llvm::is_contained(mix->axes, Axis::Group)))
      return fail("the gradient of its scores has other dots than those of "
                  "queries and keys");
    place = *mix;
  }
  return true;
}

bool Matcher::matchUses() {
  auto noMask = [](SelectOp) { return false; };
  SmallVector<ScaledUse> uses = traceUses(weights.getResult(), noMask);
  for (const ScaledUse &use : uses) {
    Operation *op = use.use->getOwner();
    if (!matchWeightsUse(use))
      return fail("its weights are read by '" + op->getName().getStringRef() +
                  "'");
    if (isa<MulOp>(op))
      products.push_back(op);
  }
  size_t ofWeights = uses.size();
  for (const ScaledUse &use : traceUses(raised, noMask)) {
    Operation *op = use.use->getOwner();
    if (op == weights || op == rowSum.getDefiningOp())
      continue;
    if (!isa<MulOp>(op) || !isWeights(use))
      return fail("its exponentials are read by '" +
                  op->getName().getStringRef() + "'");
    products.push_back(op);
    uses.push_back(use);
  }
  for (auto [i, use] : llvm::enumerate(uses))
    if (llvm::is_contained(products, use.use->getOwner()) &&
        !matchGradient(use, i < ofWeights) && !why.empty())
      return false;
  return products.empty() ||
         fail("the gradient of its softmax has an unknown form");
}

/// Checks that the forward and the gradients belong to one attention.
bool Matcher::checkShares() {
  if (!pattern.gradient)
    return gradientsOfV.empty() ||
           fail("only the gradient of its values is computed");
  AttentionGradient &gradient = *pattern.gradient;
  if (!gradient.q.op || !gradient.k.op || gradientsOfV.size() != 1)
    return fail("not all of the gradients of queries, keys and values are "
                "computed");
  gradient.values = gradientsOfV.front();
  if (!(gradient.q.operand == pattern.k) ||
      !(gradient.k.operand == pattern.q) ||
      !(gradient.values.operand == gradient.grad) ||
      (pattern.mix && !(pattern.mix->operand == gradient.v)))
    return fail("its gradient reads other operands than the forward");
  return true;
}

std::optional<AttentionPattern> Matcher::match() {
  Value scores;
  if (!matchSoftmax(scores) || !hasWeightsDot() || !matchScores(scores) ||
      !matchUses() || !checkShares())
    return std::nullopt;
  if (!pattern.mix && !pattern.gradient)
    return std::nullopt;
  pattern.element = typeOf(pattern.scores.getLhs()).getElementType();
  return pattern;
}

std::optional<AttentionPattern> scalify::matchAttention(DivOp weights,
                                                        std::string &why) {
  return Matcher(weights, why).match();
}
