//===- Reduce.cpp - Rules of reductions -----------------------------------===//

#include "scalify/Scaling/Rules.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

/// The single op of a reduction's body, or null.
static Operation *getSingleBodyOp(Region &body) {
  if (!body.hasOneBlock() || body.front().getOperations().size() != 2)
    return nullptr;
  return &body.front().front();
}

static ScaleFacts reduceExtremum(const ScaleFacts &x, double n, bool isMax) {
  // The expected maximum of n independent normal values.
  double distance = std::sqrt(x.variance() * 2 * std::log(std::max(n, 2.0)));
  ScaleFacts facts = ScaleFacts::moments(
      x.mean + (isMax ? distance : -distance), 0.1 * x.variance());
  facts.bound = x.bound;
  facts.sign = x.sign;
  return facts;
}

static void reduceFacts(const FactsQuery &query,
                        MutableArrayRef<ScaleFacts> out) {
  auto reduce = cast<stablehlo::ReduceOp>(query.op);
  Operation *body = getSingleBodyOp(reduce.getBody());
  const ScaleFacts &x = query.operand(0);
  double n = countElements(reduce.getInputs()[0]) /
             std::max(1.0, countElements(reduce->getResult(0)));
  if (!body || out.size() != 1) {
    for (auto [i, result] : llvm::enumerate(out))
      result = query.operand(i);
  } else if (isa<stablehlo::AddOp>(body)) {
    out[0] = ScaleFacts::moments(n * x.mean, n * x.variance());
    out[0].bound = n * x.bound;
    out[0].sign = x.sign;
  } else if (isa<stablehlo::MaxOp, stablehlo::MinOp>(body)) {
    out[0] = reduceExtremum(x, n, isa<stablehlo::MaxOp>(body));
  } else {
    out[0] = x;
  }
  for (ScaleFacts &result : out) {
    result.constant.reset();
    result.rule =
        llvm::formatv("reduce{0}{1} over {2}", body ? " " : "",
                      body ? body->getName().stripDialect() : StringRef(),
                      static_cast<int64_t>(n));
  }
}

void scalify::attachReduceRules(MLIRContext *context) {
  attachRule<ScaleFamily::Align, reduceFacts, stablehlo::ReduceOp>(context);
}
