//===- ExpandCHLO.cpp - Expand chlo ops into stablehlo --------------------===//
//
// One table of elementwise ops. For 16-bit types, functions that need a
// polynomial are built in f32 and converted, as in XLA: only that rounding is
// lost.
//
//===----------------------------------------------------------------------===//

#include "BitFunctions.h"
#include "ErrorFunctions.h"
#include "ExpandBroadcasts.h"
#include "ExpandTopK.h"
#include "PromoteReductions.h"
#include "SpecialFunctions.h"
#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Import/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDCHLOPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

using BuildFn = Value (*)(ImplicitLocOpBuilder &, ValueRange);
using UnaryFn = Value (*)(ImplicitLocOpBuilder &, Value);
using BinaryFn = Value (*)(ImplicitLocOpBuilder &, Value, Value);

static Value buildSquare(ImplicitLocOpBuilder &b, Value x) {
  return stablehlo::MulOp::create(b, x, x);
}

static Value buildTan(ImplicitLocOpBuilder &b, Value x) {
  return stablehlo::TanOp::create(b, x);
}

/// Builds a comparison with an infinity; `sign` 0 means either.
template <int sign> static Value buildIsInf(ImplicitLocOpBuilder &b, Value x) {
  auto type = cast<RankedTensorType>(x.getType());
  auto element = cast<FloatType>(type.getElementType());
  if (sign == 0)
    x = stablehlo::AbsOp::create(b, type, x);
  Value infinity = stablehlo::buildConstant(
      b, type, APFloat::getInf(element.getFloatSemantics(), sign < 0));
  return stablehlo::CompareOp::create(b, x, infinity,
                                      stablehlo::ComparisonDirection::EQ,
                                      stablehlo::ComparisonType::FLOAT);
}

namespace {

/// The element types of an expansion; floats narrower than F32 are converted.
enum class Types {
  Real,   // F32 and F64
  IEEE,   // floats with the bits of IEEE 754: NaN above all numbers
  Narrow, // integers whose products fit 64 bits
  Any
};

struct Expansion {
  StringLiteral name;
  BuildFn build;
  Types types;
};

template <UnaryFn build>
Value unary(ImplicitLocOpBuilder &b, ValueRange operands) {
  return build(b, operands[0]);
}

template <BinaryFn build>
Value binary(ImplicitLocOpBuilder &b, ValueRange operands) {
  return build(b, operands[0], operands[1]);
}

constexpr Expansion kExpansions[] = {
    {"chlo.acos", unary<import::buildAcos>, Types::Real},
    {"chlo.acosh", unary<import::buildAcosh>, Types::Real},
    {"chlo.asin", unary<import::buildAsin>, Types::Real},
    {"chlo.asinh", unary<import::buildAsinh>, Types::Real},
    {"chlo.atan", unary<import::buildAtan>, Types::Real},
    {"chlo.atanh", unary<import::buildAtanh>, Types::Real},
    {"chlo.bessel_i1e", unary<import::buildBesselI1e>, Types::Real},
    {"chlo.cosh", unary<import::buildCosh>, Types::Real},
    {"chlo.digamma", unary<import::buildDigamma>, Types::Real},
    {"chlo.erf", unary<import::buildErf>, Types::Real},
    {"chlo.erf_inv", unary<import::buildErfInv>, Types::Real},
    {"chlo.erfc", unary<import::buildErfc>, Types::Real},
    {"chlo.is_inf", unary<buildIsInf<0>>, Types::Any},
    {"chlo.is_neg_inf", unary<buildIsInf<-1>>, Types::Any},
    {"chlo.is_pos_inf", unary<buildIsInf<1>>, Types::Any},
    {"chlo.lgamma", unary<import::buildLgamma>, Types::Real},
    {"chlo.mulhi", binary<import::buildMulhi>, Types::Narrow},
    {"chlo.next_after", binary<import::buildNextAfter>, Types::IEEE},
    {"chlo.polygamma", binary<import::buildPolygamma>, Types::Real},
    {"chlo.sinh", unary<import::buildSinh>, Types::Real},
    {"chlo.square", unary<buildSquare>, Types::Any},
    {"chlo.tan", unary<buildTan>, Types::Any},
    {"chlo.zeta", binary<import::buildZeta>, Types::Real},
};

/// True if bits without the sign are in the order of magnitudes, with zero
/// first and NaN last.
bool hasOrderedBits(const llvm::fltSemantics &semantics) {
  return APFloat::semanticsHasZero(semantics) &&
         APFloat::semanticsHasNaN(semantics) &&
         !APFloat::getQNaN(semantics).bitcastToAPInt().isSignMask();
}

bool isOf(Types types, Type element) {
  auto real = dyn_cast<FloatType>(element);
  switch (types) {
  case Types::Real:
    return element.isF32() || element.isF64();
  case Types::IEEE:
    return real && hasOrderedBits(real.getFloatSemantics());
  case Types::Narrow:
    return element.getIntOrFloatBitWidth() <= 32;
  case Types::Any:
    return true;
  }
  llvm_unreachable("unknown set of types");
}

struct ExpandElementwise : RewritePattern {
  ExpandElementwise(MLIRContext *context, const Expansion &expansion)
      : RewritePattern(expansion.name, /*benefit=*/1, context),
        expansion(expansion) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    Type type = getElementTypeOrSelf(op->getOperand(0));
    ImplicitLocOpBuilder b(op->getLoc(), rewriter);
    if (isOf(expansion.types, type)) {
      rewriter.replaceOp(op, expansion.build(b, op->getOperands()));
      return success();
    }
    auto element = dyn_cast<FloatType>(type);
    if (expansion.types != Types::Real || !element || element.getWidth() > 16)
      return rewriter.notifyMatchFailure(op, "no expansion for this type");
    SmallVector<Value> wide;
    for (Value operand : op->getOperands())
      wide.push_back(stablehlo::ConvertOp::create(b, operand, b.getF32Type()));
    rewriter.replaceOpWithNewOp<stablehlo::ConvertOp>(
        op, expansion.build(b, wide), element);
    return success();
  }

  const Expansion &expansion;
};

struct ExpandCHLO : scalify::impl::ExpandCHLOPassBase<ExpandCHLO> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    for (const Expansion &expansion : kExpansions)
      set.add<ExpandElementwise>(context, expansion);
    import::populateTopKExpansion(set);
    import::populateBroadcastExpansions(set);
    import::populateReductionPromotions(set);
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    // Expand only; canonicalization folds.
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
