//===- ExpandCHLO.cpp - Writes chlo ops in terms of stablehlo -------------===//
//
// One table of unary ops. Functions that need a polynomial are built in f32
// and converted, as XLA does for the 16-bit types: their rounding then is the
// only loss. f64 is refused rather than computed to f32's accuracy.
//
//===----------------------------------------------------------------------===//

#include "ErrorFunctions.h"
#include "ExpandTopK.h"
#include "SpecialFunctions.h"
#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Import/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDCHLOPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

using BuildFn = Value (*)(ImplicitLocOpBuilder &, Value);

static Value buildSquare(ImplicitLocOpBuilder &b, Value x) {
  return stablehlo::MulOp::create(b, x, x);
}

static Value buildTan(ImplicitLocOpBuilder &b, Value x) {
  return stablehlo::TanOp::create(b, x);
}

/// Compares with an infinity; `sign` 0 stands for either.
template <int sign> static Value buildIsInf(ImplicitLocOpBuilder &b, Value x) {
  auto type = cast<RankedTensorType>(x.getType());
  auto element = cast<FloatType>(type.getElementType());
  if (sign == 0)
    x = stablehlo::AbsOp::create(b, type, x);
  Value infinity = stablehlo::ConstantOp::create(
      b, DenseElementsAttr::get(
             type, APFloat::getInf(element.getFloatSemantics(), sign < 0)));
  return stablehlo::CompareOp::create(b, x, infinity,
                                      stablehlo::ComparisonDirection::EQ,
                                      stablehlo::ComparisonType::FLOAT);
}

namespace {

struct Expansion {
  StringLiteral name;
  BuildFn build;
  bool inF32; // whether it is defined in f32 only
};

constexpr Expansion kExpansions[] = {
    {"chlo.acos", import::buildAcos, true},
    {"chlo.acosh", import::buildAcosh, true},
    {"chlo.asin", import::buildAsin, true},
    {"chlo.asinh", import::buildAsinh, true},
    {"chlo.atan", import::buildAtan, true},
    {"chlo.atanh", import::buildAtanh, true},
    {"chlo.cosh", import::buildCosh, true},
    {"chlo.digamma", import::buildDigamma, true},
    {"chlo.erf", import::buildErf, true},
    {"chlo.erf_inv", import::buildErfInv, true},
    {"chlo.erfc", import::buildErfc, true},
    {"chlo.is_inf", buildIsInf<0>, false},
    {"chlo.is_neg_inf", buildIsInf<-1>, false},
    {"chlo.is_pos_inf", buildIsInf<1>, false},
    {"chlo.lgamma", import::buildLgamma, true},
    {"chlo.sinh", import::buildSinh, true},
    {"chlo.square", buildSquare, false},
    {"chlo.tan", buildTan, false},
};

struct ExpandUnary : RewritePattern {
  ExpandUnary(MLIRContext *context, const Expansion &expansion)
      : RewritePattern(expansion.name, /*benefit=*/1, context),
        expansion(expansion) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    Value x = op->getOperand(0);
    auto type = cast<RankedTensorType>(x.getType());
    ImplicitLocOpBuilder b(op->getLoc(), rewriter);
    if (!expansion.inF32 || type.getElementType().isF32()) {
      rewriter.replaceOp(op, expansion.build(b, x));
      return success();
    }
    auto element = dyn_cast<FloatType>(type.getElementType());
    if (!element || element.getWidth() > 16)
      return rewriter.notifyMatchFailure(op, "no expansion for this type");
    Value wide = stablehlo::ConvertOp::create(b, x, b.getF32Type());
    rewriter.replaceOpWithNewOp<stablehlo::ConvertOp>(
        op, expansion.build(b, wide), element);
    return success();
  }

  const Expansion &expansion;
};

class ExpandCHLO : public scalify::impl::ExpandCHLOPassBase<ExpandCHLO> {
public:
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    for (const Expansion &expansion : kExpansions)
      set.add<ExpandUnary>(context, expansion);
    import::populateTopKExpansion(set);
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    // Only expand: folding is another pass.
    GreedyRewriteConfig config;
    config.enableFolding(false).enableConstantCSE(false);
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    if (failed(applyPatternsGreedily(getOperation(), patterns, config)))
      signalPassFailure();
  }

private:
  FrozenRewritePatternSet patterns;
};

} // namespace
