//===- Reduce.cpp - Rules of reductions and sorts -------------------------===//

#include "scalify/Scaling/Rules.h"

#include "Moments.h"
#include "Ramps.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

using Results = MutableArrayRef<ScaleFacts>;

/// Only homogeneous bodies commute with a scale; others need true values.
static ScaleFamily reduceFamily(Operation *op) {
  return isHomogeneous(op->getRegion(0)) ? ScaleFamily::Reduce
                                         : ScaleFamily::True;
}

static ScaleFamily orderFamily(Operation *op) {
  return isHomogeneous(op->getRegion(0)) ? ScaleFamily::PassEach
                                         : ScaleFamily::True;
}

/// The product of n elements, each near its mean.
static ScaleFacts productOf(const ScaleFacts &x, double n) {
  ScaleFacts facts;
  double exponent =
      std::clamp(n * std::log2(std::max(x.rms, 1e-30)), -100.0, 100.0);
  facts.rms = std::exp2(exponent);
  facts.mean = x.sign == Sign::NonNegative ? facts.rms : 0;
  facts.sign = x.sign == Sign::NonNegative ? x.sign : Sign::Any;
  facts.bound = x.bound <= 1 ? 1.0 : std::pow(x.bound, n);
  return facts;
}

ScaleFacts scalify::reductionOf(const ScaleFacts &x, Operation *body,
                                const TermCount &n) {
  ScaleFacts facts = x;
  if (isa_and_nonnull<stablehlo::AddOp>(body))
    facts = sumOf(x, n);
  else if (isa_and_nonnull<stablehlo::MaxOp, stablehlo::MinOp>(body))
    facts = extremumOf(x, n.mean, isa<stablehlo::MaxOp>(body));
  else if (isa_and_nonnull<stablehlo::MulOp>(body))
    facts = productOf(x, n.mean);
  else {
    // Any function of the elements.
    facts.bound = std::numeric_limits<double>::infinity();
    facts.sign = Sign::Any;
    facts.scaleByBound = false;
  }
  facts.constant.reset();
  facts.indicator = false;
  return facts;
}

std::string scalify::describeReduction(Operation *op, Operation *body,
                                       double n) {
  return llvm::formatv("{0}{1}{2} over {3}", op->getName().stripDialect(),
                       body ? " " : "",
                       body ? body->getName().stripDialect() : StringRef(),
                       static_cast<int64_t>(n));
}

/// Returns the op that a body applies to its pair of arguments `i`, or null if
/// it is not a single op.
static Operation *getPairOp(Region &body, unsigned i) {
  Block &block = body.front();
  unsigned count = block.getNumArguments() / 2;
  Operation *op = block.getTerminator()->getOperand(i).getDefiningOp();
  return op && op->getNumOperands() == 2 &&
                 llvm::is_contained(op->getOperands(), block.getArgument(i)) &&
                 llvm::is_contained(op->getOperands(),
                                    block.getArgument(i + count))
             ? op
             : nullptr;
}

static void reduceFacts(const FactsQuery &query, Results out) {
  auto reduce = cast<stablehlo::ReduceOp>(query.op);
  Operation *body = getSingleBodyOp(reduce.getBody());
  double n = countElements(reduce.getInputs()[0]) /
             std::max(1.0, countElements(reduce->getResult(0)));
  for (auto [i, result] : llvm::enumerate(out)) {
    // Several operands under one body: argmax, whose value is an extremum, or
    // several reductions.
    const ScaleFacts &x = query.operand(i);
    Operation *pair = getPairOp(reduce.getBody(), i);
    result =
        out.size() > 1 && !pair
            ? extremumOf(x, n, /*isMax=*/true)
            : reductionOf(x, out.size() > 1 ? pair : body, TermCount::of(n));
    result.anyScale &= query.of(reduce.getInitValues()[i]).anyScale;
    result.constant.reset();
    auto shape = cast<RankedTensorType>(reduce.getInputs()[i].getType());
    SmallVector<int64_t> summed;
    for (int64_t dim : reduce.getDimensions())
      summed.push_back(shape.getDimSize(dim));
    result.ramp = dropSummedRamp(x.ramp, summed);
    result.rule = describeReduction(query.op, body, n);
  }
}

static void sortFacts(const FactsQuery &query, Results out) {
  for (auto [i, result] : llvm::enumerate(out)) {
    result = query.operand(i);
    result.rule = "sort: order only";
  }
}

/// Maps a region over the elements. No rule is applied to the region's ops, so
/// the result counts as the largest operand.
static void mapFacts(const FactsQuery &query, Results out) {
  for (Value operand : query.op->getOperands())
    if (query.of(operand).rms > out[0].rms ||
        operand == query.op->getOperand(0))
      out[0] = query.of(operand);
  out[0].constant.reset();
  out[0].bound = std::numeric_limits<double>::infinity();
  out[0].sign = Sign::Any;
  out[0].rule = "map: the largest operand";
}

void scalify::attachReduceRules(MLIRContext *context) {
  using namespace stablehlo;
  attachRule<reduceFamily, reduceFacts, ReduceOp>(context);
  attachRule<orderFamily, sortFacts, SortOp>(context);
  attachRule<ScaleFamily::True, mapFacts, MapOp>(context);
}
