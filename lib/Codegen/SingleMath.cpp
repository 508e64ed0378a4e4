//===- SingleMath.cpp - Exponentials and logarithms in F32 ----------------===//
//
// MLIR's approximations flush subnormal numbers. These functions have series of
// the same length and fewer comparisons.
//
//===----------------------------------------------------------------------===//

#include "RealMath.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

using F = Real::F;

Value Real::any(Value p) {
  if (!isa<VectorType>(p.getType()))
    return p;
  return make<vector::ReductionOp>(vector::CombiningKind::OR, p);
}

Value Real::polynomial(Value x, ArrayRef<double> coefficients) {
  Value sum = c(coefficients.back());
  for (double k : llvm::reverse(coefficients.drop_back()))
    sum = fma(sum, x, c(k));
  return sum;
}

/// Adding this constant leaves a whole number in the last bits of the sum.
static double integerOffset(Type number) {
  return getElementTypeOrSelf(number).isF64() ? 0x1.8p52 : 0x1.8p23;
}

Value Real::powerOfTwo(Value k) {
  bool isWide = getElementTypeOrSelf(number).isF64();
  Value biased = add(k, c(integerOffset(number) + (isWide ? 1023 : 127)));
  return fromBits(make<arith::ShLIOp>(bits(biased), ci(isWide ? 52 : 23)));
}

Value Real::toReal(Value integer) {
  Value whole = c(integerOffset(number));
  Value sum = make<arith::AddIOp>(integer, bits(whole));
  return sub(fromBits(sum), whole);
}

// log 2 in two parts. The high part has 15 bits, so that its product with an
// exponent is exact.
static constexpr double kLog2High = 0x1.62e4p-1, kLog2Low = 0x1.7f7d1cp-20;

Value codegen::exponential32(Real &d, Value x) {
  // Outside these limits the result is 0 or infinite.
  x = d.select(d.is(F::OLT, x, -105.0), d.c(-105.0), x);
  x = d.select(d.is(F::OGT, x, 90.0), d.c(90.0), x);
  Value k = d.nearest(d.mul(x, d.c(0x1.715476p+0)));
  Value minusK = d.neg(k);
  Value r = d.fma(minusK, d.c(kLog2Low), d.fma(minusK, d.c(kLog2High), x));
  // (e^r - 1 - r) / r^2, within 3e-9 of e^r.
  Value tail = d.polynomial(
      r, {0.49999994f, 0.16666521f, 0.04166839f, 0.0083687175f, 0.0013814596f});
  Value series = d.fma(d.mul(r, r), tail, r);
  // In two steps, since 2^128 overflows; a subnormal result is rounded once.
  Value half = d.floor(d.mul(k, d.c(0.5)));
  Value scale = d.powerOfTwo(half);
  return d.mul(d.fma(series, scale, scale), d.powerOfTwo(d.sub(k, half)));
}

Value codegen::logarithm32(Real &d, Value x) {
  Value isSmall = d.is(F::OLT, x, 0x1p-126);
  Value lifted = d.select(isSmall, d.mul(x, d.c(0x1p23)), x);
  // Exponent such that the mantissa lies in [sqrt(1/2), sqrt(2)).
  Value word = d.bits(lifted);
  Value shifted = d.make<arith::SubIOp>(word, d.ci(0x3f3504f3));
  Value exponent = d.make<arith::ShRSIOp>(shifted, d.ci(23));
  Value mantissa = d.fromBits(
      d.make<arith::SubIOp>(word, d.make<arith::ShLIOp>(exponent, d.ci(23))));
  Value k = d.toReal(exponent);
  k = d.select(isSmall, d.sub(k, d.c(23.0)), k);
  Value f = d.sub(mantissa, d.c(1.0)), f2 = d.mul(f, f);
  // (log(1 + f) - f + f^2 / 2) / f^3, within 6e-9 of log(1 + f).
  Value tail =
      d.polynomial(f, {0.3333333f, -0.25000823f, 0.20001227f, -0.16623357f,
                       0.14201762f, -0.13160194f, 0.1276155f, -0.0763443f});
  Value low = d.fma(d.mul(f2, f), tail, d.mul(k, d.c(kLog2Low)));
  Value found = d.add(d.fma(f2, d.c(-0.5), low), f);
  found = d.fma(k, d.c(kLog2High), found);
  // Results for operands that are not positive and finite.
  found = d.select(d.is(F::OLT, x, INFINITY), found, x);
  found = d.select(d.is(F::OLT, x, 0.0), d.c(NAN), found);
  return d.select(d.is(F::OEQ, x, 0.0), d.c(-INFINITY), found);
}
