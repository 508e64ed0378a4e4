//===- Dot.cpp - The rule of dot_general ----------------------------------===//
//
// A dot over K terms: the mean grows by K, the deviation by sqrt(K). With
// zero-mean operands this is sa * sb * sqrt(K), as in Unit Scaling (Blake et
// al. 2023, section 4); a sum of non-negative terms grows by K.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Rules.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace scalify;

static void dotFacts(const FactsQuery &query, MutableArrayRef<ScaleFacts> out) {
  auto dot = cast<stablehlo::DotGeneralOp>(query.op);
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  auto lhsType = cast<RankedTensorType>(dot.getLhs().getType());
  double k = 1;
  for (int64_t dim : dot.getDotDimensionNumbers().getLhsContractingDimensions())
    k *= static_cast<double>(lhsType.getDimSize(dim));
  double mean = a.mean * b.mean;
  double variance = a.rms * a.rms * b.rms * b.rms - mean * mean;
  out[0] = ScaleFacts::moments(k * mean, k * variance);
  out[0].bound = k * a.bound * b.bound;
  bool grows = std::abs(k * mean) > 0.5 * out[0].rms;
  out[0].rule = llvm::formatv("dot: {0}(K = {1})", grows ? "" : "sqrt",
                              static_cast<int64_t>(k));
}

void scalify::attachDotRules(MLIRContext *context) {
  attachRule<ScaleFamily::Product, dotFacts, stablehlo::DotGeneralOp>(context);
}
