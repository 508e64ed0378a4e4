//===- ExpandMath.cpp - Math functions as polynomials ---------------------===//
//
// MLIR's approximations serve exp, log, tanh, erf and the like. Those of sine
// and cosine lose too much for rotary embeddings, and a power through f32
// logarithms loses the digits of an exponent of hundreds; both are computed in
// f64 here, where reduction of the argument is exact enough and a short series
// gives all of f32's digits. They are rare, so the cost does not matter.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"

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

namespace {
/// Arithmetic on f64 values shaped like the f32 ones.
struct Double {
  OpBuilder &b;
  Location loc;
  Type narrow; // f32 or a vector of it

  Type element(Type e) const {
    if (auto vector = dyn_cast<VectorType>(narrow))
      return VectorType::get(vector.getShape(), e);
    return e;
  }
  Type f64() const { return element(b.getF64Type()); }
  Type i64() const { return element(b.getI64Type()); }
  Value c(double v) { return constantLike(b, loc, f64(), v); }
  Value ci(int64_t v) { return constantLike(b, loc, i64(), v); }
  Value widen(Value x) { return arith::ExtFOp::create(b, loc, f64(), x); }
  Value narrowed(Value x) { return arith::TruncFOp::create(b, loc, narrow, x); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value fma(Value x, Value y, Value z) {
    return math::FmaOp::create(b, loc, x, y, z);
  }
  Value select(Value p, Value x, Value y) {
    return arith::SelectOp::create(b, loc, p, x, y);
  }
  Value compare(arith::CmpFPredicate p, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, p, x, y);
  }
  Value is(arith::CmpFPredicate p, Value x, double y) {
    return compare(p, x, c(y));
  }
  Value bits(Value x) { return arith::BitcastOp::create(b, loc, i64(), x); }
  Value fromBits(Value x) { return arith::BitcastOp::create(b, loc, f64(), x); }

  /// Sum of coefficients[i] * x^i, lowest power first.
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value sum = c(coefficients.back());
    for (double k : llvm::reverse(coefficients.drop_back()))
      sum = fma(sum, x, c(k));
    return sum;
  }
};

/// Sine (quadrant 0) or cosine (quadrant 1) of x.
Value sineOfQuadrant(Double &d, Value x, int64_t quadrant) {
  Value k =
      math::RoundEvenOp::create(d.b, d.loc, d.mul(x, d.c(0.63661977236758134)));
  Value minusK = arith::NegFOp::create(d.b, d.loc, k);
  // pi/2 in two parts: 106 bits.
  Value r = d.fma(minusK, d.c(1.5707963267948966), x);
  r = d.fma(minusK, d.c(6.123233995736766e-17), r);
  // Beyond 1e15 nothing is left of the angle; stay within [-1, 1] at least.
  Value size = math::AbsFOp::create(d.b, d.loc, r);
  r = d.select(d.is(arith::CmpFPredicate::OGT, size, 0.79), d.c(0.0), r);
  Value r2 = d.mul(r, r);
  Value sine = d.mul(r, d.polynomial(r2, {1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040,
                                          1.0 / 362880, -1.0 / 39916800}));
  Value cosine =
      d.polynomial(r2, {1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320,
                        -1.0 / 3628800, 1.0 / 479001600});
  // The quadrant modulo 4, without leaving floating point.
  Value turn = d.add(k, d.c(quadrant));
  Value fours = math::FloorOp::create(d.b, d.loc, d.mul(turn, d.c(0.25)));
  Value q = d.fma(fours, d.c(-4.0), turn);
  using P = arith::CmpFPredicate;
  Value isOdd = arith::OrIOp::create(d.b, d.loc, d.is(P::OEQ, q, 1.0),
                                     d.is(P::OEQ, q, 3.0));
  Value value = d.select(isOdd, cosine, sine);
  Value negated = arith::NegFOp::create(d.b, d.loc, value);
  return d.select(d.is(P::OGE, q, 2.0), negated, value);
}

/// Natural logarithm of a positive, normal x.
Value logOf(Double &d, Value x) {
  Value word = d.bits(x);
  // Exponent such that the mantissa lies in [sqrt(1/2), sqrt(2)).
  Value shifted =
      arith::SubIOp::create(d.b, d.loc, word, d.ci(0x3fe6a09e667f3bcdll));
  Value exponent = arith::ShRSIOp::create(d.b, d.loc, shifted, d.ci(52));
  Value mantissa = d.fromBits(arith::SubIOp::create(
      d.b, d.loc, word, arith::ShLIOp::create(d.b, d.loc, exponent, d.ci(52))));
  Value k = arith::SIToFPOp::create(d.b, d.loc, d.f64(), exponent);
  Value s = d.div(d.sub(mantissa, d.c(1.0)), d.add(mantissa, d.c(1.0)));
  Value series =
      d.polynomial(d.mul(s, s), {2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9,
                                 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17});
  return d.fma(k, d.c(0.69314718055994531), d.mul(s, series));
}

/// e^x, for the finite range of f64.
Value expOf(Double &d, Value x) {
  using P = arith::CmpFPredicate;
  x = d.select(d.is(P::OLT, x, -700.0), d.c(-700.0), x);
  x = d.select(d.is(P::OGT, x, 700.0), d.c(700.0), x);
  Value k =
      math::RoundEvenOp::create(d.b, d.loc, d.mul(x, d.c(1.4426950408889634)));
  Value r = d.fma(k, d.c(-0.69314718055994531), x);
  r = d.fma(k, d.c(-2.3190468138462996e-17), r);
  Value series = d.polynomial(r, {1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24,
                                  1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                                  1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800});
  Value power = arith::FPToSIOp::create(d.b, d.loc, d.i64(), k);
  Value biased = arith::AddIOp::create(d.b, d.loc, power, d.ci(1023));
  Value scale = d.fromBits(arith::ShLIOp::create(d.b, d.loc, biased, d.ci(52)));
  return d.mul(series, scale);
}

Value powerOf(Double &d, Value x, Value y) {
  using P = arith::CmpFPredicate;
  Value one = d.c(1.0), infinity = d.c(INFINITY), zero = d.c(0.0);
  Value magnitude = math::AbsFOp::create(d.b, d.loc, x);
  Value usual = d.select(d.is(P::OGT, magnitude, 0.0), magnitude, one);
  usual = d.select(d.compare(P::OLT, usual, infinity), usual, one);
  Value result = expOf(d, d.mul(y, logOf(d, usual)));
  // |x| of 0 and of infinity: y decides.
  Value grows = d.is(P::OGT, y, 0.0);
  result = d.select(d.is(P::OEQ, magnitude, 0.0),
                    d.select(grows, zero, infinity), result);
  result = d.select(d.compare(P::OEQ, magnitude, infinity),
                    d.select(grows, infinity, zero), result);
  // A negative base needs an integer exponent, whose parity is the sign.
  Value whole = math::FloorOp::create(d.b, d.loc, y);
  Value isInteger = d.compare(P::OEQ, whole, y);
  Value half = d.mul(y, d.c(0.5));
  Value isEven =
      d.compare(P::OEQ, half, math::FloorOp::create(d.b, d.loc, half));
  Value isOdd = arith::AndIOp::create(
      d.b, d.loc, isInteger,
      arith::XOrIOp::create(
          d.b, d.loc, isEven,
          constantLike(d.b, d.loc, isEven.getType(), int64_t(1))));
  Value signedZero = math::CopySignOp::create(d.b, d.loc, result, x);
  Value isNegative = d.is(P::OLT, x, 0.0);
  Value isNaN = arith::AndIOp::create(
      d.b, d.loc, isNegative,
      arith::AndIOp::create(
          d.b, d.loc, d.compare(P::OLT, magnitude, infinity),
          arith::XOrIOp::create(
              d.b, d.loc, isInteger,
              constantLike(d.b, d.loc, isEven.getType(), int64_t(1)))));
  result = d.select(isOdd, signedZero, result);
  result = d.select(isNaN, d.c(NAN), result);
  Value unordered = d.compare(P::UNO, x, y);
  result = d.select(unordered, d.c(NAN), result);
  result = d.select(d.is(P::OEQ, x, 1.0), one, result);
  return d.select(d.is(P::OEQ, y, 0.0), one, result);
}

/// Remainder of truncated division; exact while the quotient is below 2^29.
Value remainderOf(Double &d, Value x, Value y) {
  using P = arith::CmpFPredicate;
  Value q = math::TruncOp::create(d.b, d.loc, d.div(x, y));
  Value r = d.fma(arith::NegFOp::create(d.b, d.loc, q), y, x);
  // The quotient may have been rounded up to the next integer.
  Value size = math::AbsFOp::create(d.b, d.loc, y);
  Value step = math::CopySignOp::create(d.b, d.loc, size, x);
  Value crossed = d.is(P::OLT, d.mul(r, x), 0.0);
  r = d.select(crossed, d.add(r, step), r);
  Value tooLarge = d.compare(P::OGE, math::AbsFOp::create(d.b, d.loc, r), size);
  r = d.select(tooLarge, d.sub(r, step), r);
  r = math::CopySignOp::create(d.b, d.loc, r, x);
  Value isFinite =
      d.compare(P::OLT, math::AbsFOp::create(d.b, d.loc, x), d.c(INFINITY));
  Value keeps =
      arith::AndIOp::create(d.b, d.loc, isFinite, d.is(P::OEQ, size, INFINITY));
  return d.select(keeps, x, r);
}

template <typename Op> struct InDouble : OpRewritePattern<Op> {
  using Fn = Value (*)(Double &, ValueRange);
  InDouble(MLIRContext *context, Fn fn)
      : OpRewritePattern<Op>(context), fn(fn) {}

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    Type type = op->getResult(0).getType();
    if (!getElementTypeOrSelf(type).isF32())
      return rewriter.notifyMatchFailure(op, "not f32");
    Double d{rewriter, op.getLoc(), type};
    SmallVector<Value> wide;
    for (Value operand : op->getOperands())
      wide.push_back(d.widen(operand));
    rewriter.replaceOp(op, d.narrowed(fn(d, wide)));
    return success();
  }
  Fn fn;
};

struct ExpandRsqrt : OpRewritePattern<math::RsqrtOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::RsqrtOp op,
                                PatternRewriter &rewriter) const override {
    Value one = constantLike(rewriter, op.getLoc(), op.getType(), 1.0);
    Value root = math::SqrtOp::create(rewriter, op.getLoc(), op.getOperand());
    rewriter.replaceOpWithNewOp<arith::DivFOp>(op, one, root);
    return success();
  }
};

class ExpandMathPass : public scalify::impl::ExpandMathBase<ExpandMathPass> {
public:
  using ExpandMathBase::ExpandMathBase;

  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    set.add<InDouble<math::SinOp>>(context, [](Double &d, ValueRange x) {
      return sineOfQuadrant(d, x[0], 0);
    });
    set.add<InDouble<math::CosOp>>(context, [](Double &d, ValueRange x) {
      return sineOfQuadrant(d, x[0], 1);
    });
    set.add<InDouble<math::TanOp>>(context, [](Double &d, ValueRange x) {
      return d.div(sineOfQuadrant(d, x[0], 0), sineOfQuadrant(d, x[0], 1));
    });
    set.add<InDouble<math::PowFOp>>(context, [](Double &d, ValueRange x) {
      return powerOf(d, x[0], x[1]);
    });
    set.add<InDouble<math::CbrtOp>>(context, [](Double &d, ValueRange x) {
      Value magnitude = math::AbsFOp::create(d.b, d.loc, x[0]);
      Value root = powerOf(d, magnitude, d.c(1.0 / 3));
      return Value(math::CopySignOp::create(d.b, d.loc, root, x[0]));
    });
    set.add<InDouble<arith::RemFOp>>(context, [](Double &d, ValueRange x) {
      return remainderOf(d, x[0], x[1]);
    });
    set.add<ExpandRsqrt>(context);
    populateMathPolynomialApproximationPatterns(set, [](StringRef name) {
      return name != "math.sin" && name != "math.cos" && name != "math.rsqrt" &&
             name != "math.cbrt";
    });
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    if (failed(applyPatternsGreedily(getOperation(), patterns)))
      signalPassFailure();
  }

private:
  FrozenRewritePatternSet patterns;
};
} // namespace
