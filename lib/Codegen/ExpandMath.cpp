//===- ExpandMath.cpp - Math functions as polynomials ---------------------===//
//
// MLIR's approximations serve tanh, expm1 and log1p of F32. Its sine and cosine
// are too inaccurate for rotary embeddings, a power through f32 logarithms
// loses the digits of an exponent of hundreds, and others miss a special value.
// These functions are computed in F64, with F64's own series (RealMath.h). They
// are rare, so the cost does not matter.
//
//===----------------------------------------------------------------------===//

#include "RealMath.h"

#include "scalify/Codegen/Passes.h"

#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDMATH
#include "scalify/Codegen/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using codegen::constantLike;

static LogicalResult expandRsqrt(math::RsqrtOp op, PatternRewriter &rewriter) {
  Value one = constantLike(rewriter, op.getLoc(), op.getType(), 1.0);
  Value root = math::SqrtOp::create(rewriter, op.getLoc(), op.getOperand());
  rewriter.replaceOpWithNewOp<arith::DivFOp>(op, one, root);
  return success();
}

namespace {
using BuildFn = Value (*)(codegen::Real &, ValueRange);

/// Computes a function in F64, and rounds the result once for F32.
template <typename Op> struct InDouble : OpRewritePattern<Op> {
  InDouble(MLIRContext *context, BuildFn build, bool isForF32)
      : OpRewritePattern<Op>(context), build(build), isForF32(isForF32) {}

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    Type type = op->getResult(0).getType();
    Type element = getElementTypeOrSelf(type);
    if (!element.isF64() && !(element.isF32() && isForF32))
      return rewriter.notifyMatchFailure(op, "not computed in f64");
    codegen::Real d = codegen::Real::wide(rewriter, op.getLoc(), type);
    SmallVector<Value> wide;
    for (Value operand : op->getOperands())
      wide.push_back(d.widen(operand));
    rewriter.replaceOp(op, d.narrowed(build(d, wide)));
    return success();
  }

  BuildFn build;
  bool isForF32;
};

template <Value build(codegen::Real &, Value)>
Value unary(codegen::Real &d, ValueRange x) {
  return build(d, x[0]);
}

template <Value build(codegen::Real &, Value, Value)>
Value binary(codegen::Real &d, ValueRange x) {
  return build(d, x[0], x[1]);
}

/// Computes an F32 function in F32.
template <typename Op, Value build(codegen::Real &, Value)>
struct InSingle : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    Type type = op.getType();
    if (!getElementTypeOrSelf(type).isF32())
      return rewriter.notifyMatchFailure(op, "not f32");
    codegen::Real d{rewriter, op.getLoc(), type, type};
    rewriter.replaceOp(op, build(d, op.getOperand()));
    return success();
  }
};

struct ExpandMathPass : scalify::impl::ExpandMathBase<ExpandMathPass> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    // For F32 too if MLIR's F32 series is not accurate enough.
    add<math::SinOp>(set, unary<codegen::sine>, /*isForF32=*/true);
    add<math::CosOp>(set, unary<codegen::cosine>, /*isForF32=*/true);
    add<math::TanOp>(set, unary<codegen::tangent>, /*isForF32=*/true);
    add<math::PowFOp>(set, binary<codegen::power>, /*isForF32=*/true);
    add<math::CbrtOp>(set, unary<codegen::cubeRoot>, /*isForF32=*/true);
    add<math::Atan2Op>(set, binary<codegen::arcTangent>, /*isForF32=*/true);
    add<arith::RemFOp>(set, binary<codegen::remainder>, /*isForF32=*/true);
    add<math::ExpOp>(set, unary<codegen::exponential>, /*isForF32=*/false);
    add<math::ExpM1Op>(set, unary<codegen::exponentialMinusOne>,
                       /*isForF32=*/false);
    add<math::LogOp>(set, unary<codegen::logarithm>, /*isForF32=*/false);
    add<math::Log1pOp>(set, unary<codegen::logarithmPlusOne>,
                       /*isForF32=*/false);
    add<math::TanhOp>(set, unary<codegen::hyperbolicTangent>,
                      /*isForF32=*/false);
    set.add<InSingle<math::ExpOp, codegen::exponential32>,
            InSingle<math::LogOp, codegen::logarithm32>>(context);
    set.add(expandRsqrt);
    populateMathPolynomialApproximationPatterns(set, [](StringRef name) {
      return name != "math.sin" && name != "math.cos" && name != "math.rsqrt" &&
             name != "math.cbrt" && name != "math.atan2" &&
             name != "math.exp" && name != "math.log";
    });
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    if (failed(applyPatternsGreedily(getOperation(), patterns)))
      signalPassFailure();
  }

private:
  template <typename Op>
  static void add(RewritePatternSet &set, BuildFn build, bool isForF32) {
    set.add<InDouble<Op>>(set.getContext(), build, isForF32);
  }

  FrozenRewritePatternSet patterns;
};
} // namespace
