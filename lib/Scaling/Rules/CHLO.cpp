//===- CHLO.cpp - Rules of the chlo ops that Import keeps -----------------===//

#include "scalify/Dialect/CHLO/CHLO.h"

#include "Moments.h"
#include "scalify/Scaling/Rules.h"

using namespace mlir;
using namespace scalify;

using Results = MutableArrayRef<ScaleFacts>;

static void topKFacts(const FactsQuery &query, Results out) {
  auto topK = cast<chlo::TopKOp>(query.op);
  auto type = cast<RankedTensorType>(topK.getOperand().getType());
  out[0] = getTopKFacts(query.operand(0), static_cast<double>(topK.getK()),
                        static_cast<double>(type.getShape().back()));
  out[0].rule = "top_k: the upper tail";
  out[1].rule = "top_k: indices";
}

void scalify::attachCHLORules(MLIRContext *context) {
  attachRaggedDotRules(context);
  attachRule<ScaleFamily::PassEach, topKFacts, chlo::TopKOp>(context);
}
