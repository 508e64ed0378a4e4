//===- ListIdioms.cpp - List the idioms of a program ----------------------===//

#include "scalify/Idioms/Passes.h"

#include "scalify/Idioms/GELU.h"
#include "scalify/Idioms/Idioms.h"

#include "llvm/Support/FormatVariadic.h"

namespace scalify {
#define GEN_PASS_DEF_LISTIDIOMS
#include "scalify/Idioms/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::idioms;

static std::string describe(const Norm &norm) {
  return llvm::formatv(
      "norm: {0:F3} / sqrt({1:F6} * sum + {2:E1}), {3:F0} terms, {4} factors",
      norm.numerator, norm.scale, norm.eps, norm.width, norm.factors.size());
}

static std::string describe(const Rotation &) { return "rotation"; }

static std::string describe(const MaxSubtraction &shift) {
  return llvm::formatv("x - max(x): {0:F0} elements{1}{2}", shift.width,
                       shift.isAttained ? "" : ", not attained",
                       shift.ifFinite ? ", if finite" : "");
}

static std::string describe(const LogSoftmax &softmax) {
  return llvm::formatv("log-softmax: {0:F0} elements", softmax.width);
}

static std::string describe(const Share &share) {
  return llvm::formatv("x / sum(x): {0:F0} terms", share.width);
}

static std::string describe(const GatedValue &gated) {
  constexpr StringLiteral names[] = {"logistic", "tanh", "erf"};
  return llvm::formatv("x g(x): {0}, up to {1:F1}",
                       names[static_cast<size_t>(gated.gate)], gated.top);
}

/// Reports what `match` finds, with proof or as an estimate.
template <typename Match> static void report(Operation *op, Match match) {
  if (auto found = match(op, MatchFor::Proof))
    op->emitRemark("proved ") << describe(*found);
  else if (auto likely = match(op, MatchFor::Estimate))
    op->emitRemark("likely ") << describe(*likely);
}

/// Reports the idioms that have only one purpose.
static void reportOthers(Operation *op) {
  if (auto concatenate = dyn_cast<stablehlo::ConcatenateOp>(op))
    if (auto pair = matchRotatedPair(concatenate))
      op->emitRemark("proved rotated pair")
          << (pair->whole ? ", of one tensor" : "");
  if (matchSoftmax(op))
    op->emitRemark("proved softmax");
  if (auto softmax = matchLogSoftmax(op->getResult(0)))
    op->emitRemark("likely ") << describe(*softmax);
  if (auto function = matchErrorFunction(op->getResult(0)))
    op->emitRemark(function->isComplement ? "likely erfc" : "likely erf");
}

namespace {
struct ListIdiomsPass : scalify::impl::ListIdiomsBase<ListIdiomsPass> {
  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      if (op->getNumResults() != 1)
        return;
      report(op, matchNorm);
      report(op, matchRotation);
      report(op, [](Operation *difference, MatchFor purpose) {
        return matchMaxSubtraction(difference->getResult(0), purpose);
      });
      report(op, matchShare);
      report(op, matchGatedValue);
      reportOthers(op);
    });
  }
};
} // namespace
