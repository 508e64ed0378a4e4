//===- GrowingCarries.cpp - Carries that no constant scale fits -----------===//
//
// A carry that grows without limit, or over many binades, has a scale that
// moves with it: along a line that the execution on facts shows, or measured.
// If branches return sizes too far apart, the result has the scale of the
// branch that ran.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Scaling/CarryFacts.h"
#include "scalify/Scaling/ScaleAnalysis.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

// The scale of a carry within this many binades of a line follows the line.
static constexpr double kTrendMisfit = 2;

// E4M3 holds data within [-4, +4] binades of a constant scale. E5M2 holds
// gradients within [-8, +8].
double scalify::getLargestSpread(bool isGradient) {
  return isGradient ? 16 : 8;
}

Value GrowingCarry::getValue() const {
  if (auto loop = dyn_cast<stablehlo::WhileOp>(op))
    return loop.getBody().getArgument(index);
  return op->getResult(index);
}

std::string GrowingCarry::describe() const {
  if (!isa<stablehlo::WhileOp>(op))
    return llvm::formatv("that of the branch that ran, of {0:F1} binades",
                         spread);
  if (!growth)
    return llvm::formatv("measured, moves through {0:F1} binades", spread);
  return llvm::formatv("{0} by 2^{1:F2} a trip",
                       *growth < 0 ? "shrinks" : "grows", std::fabs(*growth));
}

/// Adds the body's values that depend on a value of `found`, or with `backward`
/// those that a value of `found` depends on, also across iterations.
static void computeBodyClosure(stablehlo::WhileOp loop, bool backward,
                               DenseSet<Value> &found) {
  Block &body = loop.getBody().front();
  Operation *terminator = body.getTerminator();
  auto isFound = [&](Value value) { return found.contains(value); };
  for (size_t before = 0; before != found.size();) {
    before = found.size();
    for (unsigned i = 0; i < loop.getNumResults(); ++i) {
      Value next = terminator->getOperand(i);
      if (isFound(backward ? body.getArgument(i) : next))
        found.insert(backward ? next : Value(body.getArgument(i)));
    }
    auto visit = [&](Operation &op) {
      SmallVector<Value> reads;
      op.walk([&](Operation *inner) {
        llvm::append_range(reads, inner->getOperands());
      });
      if (!backward && llvm::any_of(reads, isFound))
        found.insert_range(op.getResults());
      else if (backward && llvm::any_of(op.getResults(), isFound))
        found.insert_range(reads);
    };
    if (backward)
      llvm::for_each(llvm::reverse(body.without_terminator()), visit);
    else
      llvm::for_each(body.without_terminator(), visit);
  }
}

/// True if each iteration reads the same elements, and they are not all equal.
static bool isSameInEachIteration(stablehlo::WhileOp loop, Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!loop.getBody().isAncestor(op->getParentRegion()))
      break;
    if (!isa<stablehlo::ReshapeOp, stablehlo::TransposeOp, stablehlo::ConvertOp,
             stablehlo::BroadcastInDimOp>(op))
      return false;
    value = op->getOperand(0);
  }
  SplatElementsAttr splat;
  if (matchPattern(value, m_Constant(&splat)) ||
      cast<ShapedType>(value.getType()).getRank() == 0)
    return false;
  auto arg = dyn_cast<BlockArgument>(value);
  if (arg && arg.getOwner()->getParentOp() == loop)
    return stablehlo::isInvariantCarry(loop, arg.getArgNumber());
  return !loop.getBody().isAncestor(value.getParentRegion());
}

/// True if a carry is multiplied by the same factors in each iteration. It
/// turns towards the direction that they enlarge most, a matrix's first
/// eigenvector, and outgrows the prediction for independent factors.
static bool hasRepeatedFactors(stablehlo::WhileOp loop, unsigned index) {
  DenseSet<Value> after{loop.getBody().getArgument(index)};
  DenseSet<Value> before{
      loop.getBody().front().getTerminator()->getOperand(index)};
  computeBodyClosure(loop, /*backward=*/false, after);
  computeBodyClosure(loop, /*backward=*/true, before);
  for (Operation &op : loop.getBody().front().without_terminator()) {
    if (llvm::none_of(op.getResults(), [&](Value result) {
          return after.contains(result) && before.contains(result);
        }))
      continue;
    WalkResult walk = op.walk([&](Operation *inner) {
      auto rule = dyn_cast<ScaleRuleInterface>(inner);
      if (!rule || (rule.getScaleFamily() != ScaleFamily::Product &&
                    rule.getScaleFamily() != ScaleFamily::Quotient))
        return WalkResult::advance();
      bool isSame = isSameInEachIteration(loop, inner->getOperand(0)) ||
                    isSameInEachIteration(loop, inner->getOperand(1));
      return isSame ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return true;
  }
  return false;
}

/// Returns the most binades that one scale may cover, by the phase of the op
/// that makes the region's result.
static double getLimit(Region &region, unsigned index) {
  Operation *source =
      region.front().getTerminator()->getOperand(index).getDefiningOp();
  bool isGradient = source && isInPhase(source, Phase::Backward);
  return getLargestSpread(isGradient);
}

/// Returns the carry if its range is too wide for a constant scale.
std::optional<GrowingCarry>
ScaleAnalysis::findGrowth(stablehlo::WhileOp loop, unsigned index,
                          const CarryFacts &carry) const {
  BlockArgument arg = loop.getBody().getArgument(index);
  if (!hasScale(arg.getType()) || getUpdateOfZeroStack(loop, index) ||
      stablehlo::isInvariantCarry(loop, index))
    return std::nullopt;
  bool isCounted = stablehlo::getTripCount(loop).has_value();
  double limit = getLimit(loop.getBody(), index);
  if (carry.spread() <= limit && (isCounted || !carry.keepsRatio()))
    return std::nullopt;
  CarryTrend trend = carry.getTrend(/*atEnd=*/!isCounted);
  GrowingCarry entry{loop, index, trend.start, trend.growth, carry.spread()};
  if (trend.misfit > kTrendMisfit || hasRepeatedFactors(loop, index)) {
    entry.growth.reset();
    entry.start = trend.first;
  }
  return entry;
}

void ScaleAnalysis::findGrowing(stablehlo::WhileOp loop,
                                ArrayRef<CarryFacts> carries) {
  // An earlier round over state, or over an outer loop, may have added others.
  llvm::erase_if(growing,
                 [&](const GrowingCarry &entry) { return entry.op == loop; });
  for (unsigned i = 0; i < carries.size(); ++i)
    if (std::optional<GrowingCarry> entry = findGrowth(loop, i, carries[i])) {
      facts[entry->getValue()].rule =
          "carry of a loop, dynamic: " + entry->describe();
      growing.push_back(*entry);
    }
}

/// Finds branch results that are too far apart for one scale.
void ScaleAnalysis::findDynamicResults(Operation *op,
                                       ArrayRef<CarryFacts> results) {
  llvm::erase_if(growing,
                 [&](const GrowingCarry &entry) { return entry.op == op; });
  for (auto [i, result] : llvm::enumerate(results)) {
    double limit = getLargestSpread(/*isGradient=*/false);
    for (Region &region : op->getRegions())
      limit = std::max(limit, getLimit(region, i));
    if (!hasScale(op->getResult(i).getType()) || result.spread() <= limit)
      continue;
    GrowingCarry entry{op, static_cast<unsigned>(i), 0, {}, result.spread()};
    facts[op->getResult(i)].rule = "branches, dynamic: " + entry.describe();
    growing.push_back(entry);
  }
}
