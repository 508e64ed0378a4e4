//===- Dot.cpp - Rules of products of tensors -----------------------------===//
//
// A dot over K terms: the mean grows by K, the deviation by sqrt(K). With
// zero-mean operands this is sa * sb * sqrt(K), as in Unit Scaling (Blake et
// al. 2023, section 4); a sum of non-negative terms grows by K.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Rules.h"

#include "Moments.h"
#include "Ramps.h"
#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

using Results = MutableArrayRef<ScaleFacts>;

static void contract(const FactsQuery &query, double k, StringRef name,
                     Results out) {
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  out[0] = dotOf(a, b, TermCount::of(k));
  bool grows = std::fabs(out[0].mean) > 0.5 * out[0].rms;
  out[0].rule = llvm::formatv("{0}: {1}(K = {2})", name, grows ? "" : "sqrt",
                              static_cast<int64_t>(k));
}

static void dotGeneralFacts(const FactsQuery &query, Results out) {
  auto dot = cast<stablehlo::DotGeneralOp>(query.op);
  auto dims = dot.getDotDimensionNumbers();
  contract(query,
           countElements(dot.getLhs(), dims.getLhsContractingDimensions()),
           "dot", out);
  SmallVector<int64_t> summed;
  for (int64_t dim : dims.getLhsContractingDimensions())
    summed.push_back(dot.getLhs().getType().getDimSize(dim));
  ScaleFacts a = query.operand(0), b = query.operand(1);
  a.ramp = dropSummedRamp(a.ramp, summed);
  b.ramp = dropSummedRamp(b.ramp, summed);
  applyRampsToProduct(a, b, 1, out[0]);
}

static void dotFacts(const FactsQuery &query, Results out) {
  Value lhs = query.op->getOperand(0);
  int64_t rank = cast<RankedTensorType>(lhs.getType()).getRank();
  contract(query, countElements(lhs, {rank - 1}), "dot", out);
}

/// Returns the product of the sizes of the labels that are not in the result.
static double countSummed(StringRef equation, ValueRange operands) {
  auto [inputs, result] = equation.split("->");
  double k = 1;
  SmallVector<StringRef> terms;
  inputs.split(terms, ',');
  std::string seen;
  for (auto [term, operand] : llvm::zip(terms, operands)) {
    term = term.trim();
    auto type = cast<RankedTensorType>(operand.getType());
    for (auto [i, label] : llvm::enumerate(term)) {
      if (label == '.' || result.contains(label) ||
          StringRef(seen).contains(label) ||
          i >= static_cast<size_t>(type.getRank()))
        continue;
      seen += label;
      k *= static_cast<double>(type.getDimSize(i));
    }
  }
  return k;
}

static void einsumFacts(const FactsQuery &query, Results out) {
  auto op = cast<stablehlo::EinsumOp>(query.op);
  contract(query, countSummed(op.getEinsumConfig(), op->getOperands()),
           "einsum", out);
}

static void unaryEinsumFacts(const FactsQuery &query, Results out) {
  auto op = cast<stablehlo::UnaryEinsumOp>(query.op);
  double k = countSummed(op.getEinsumConfig(), op->getOperands());
  out[0] = sumOf(query.operand(0), TermCount::of(k));
  out[0].rule = llvm::formatv("unary_einsum over {0}", static_cast<int64_t>(k));
}

/// A ragged dot contracts as a dot does, unless the ragged dimension is the
/// contracted one (the gradient of the experts' weights): then each group sums
/// over its own part of it.
static void raggedDotFacts(const FactsQuery &query, Results out) {
  auto dot = cast<chlo::RaggedDotOp>(query.op);
  auto dims = dot.getRaggedDotDimensionNumbers();
  double k = countElements(dot.getLhs(), dims.getLhsContractingDimensions());
  double groups = countElements(dot.getGroupSizes());
  int64_t rank =
      cast<RankedTensorType>(dot.getGroupSizes().getType()).getRank();
  if (rank > 1)
    groups = static_cast<double>(
        cast<RankedTensorType>(dot.getGroupSizes().getType())
            .getDimSize(rank - 1));
  bool isContracted =
      llvm::any_of(dims.getLhsRaggedDimensions(), [&](int64_t dim) {
        return llvm::is_contained(dims.getLhsContractingDimensions(), dim);
      });
  contract(query, isContracted ? std::max(1.0, k / groups) : k, "ragged_dot",
           out);
}

void scalify::attachDotRules(MLIRContext *context) {
  using namespace stablehlo;
  attachRule<ScaleFamily::Product, dotGeneralFacts, DotGeneralOp>(context);
  attachRule<ScaleFamily::Product, dotFacts, DotOp>(context);
  attachRule<ScaleFamily::Product, einsumFacts, EinsumOp>(context);
  attachRule<ScaleFamily::Reduce, unaryEinsumFacts, UnaryEinsumOp>(context);
}

void scalify::attachRaggedDotRules(MLIRContext *context) {
  attachRule<ScaleFamily::Product, raggedDotFacts, chlo::RaggedDotOp>(context);
}
