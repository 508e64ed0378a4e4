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

/// Returns a * 2^k, for `a` in [1/2, 2) and whole k from -152 on, which must
/// not overflow. A subnormal result is rounded once, and no operation has one:
/// some processors take a hundred cycles or more for it.
static Value timesPowerOfTwo(Real &d, Value a, Value k) {
  auto plus = [&](Value x, Value y) { return d.make<arith::AddIOp>(x, y); };
  Value whole = d.bits(d.add(k, d.c(integerOffset(d.number))));
  Value exponent = d.make<arith::ShLIOp>(whole, d.ci(23));
  Value normal = plus(d.bits(a), exponent);
  // Times 2^64, the smallest subnormal is the last place of this number. Adding
  // it rounds, and leaves the multiple of that subnormal: its bits.
  Value magic = d.c(0x1p-62);
  Value lifted = d.fromBits(plus(normal, d.ci(int64_t(64) << 23)));
  Value subnormal =
      d.make<arith::SubIOp>(d.bits(d.add(lifted, magic)), d.bits(magic));
  Value isSmall = d.make<arith::CmpIOp>(arith::CmpIPredicate::slt, normal,
                                        d.ci(0x00800000));
  return d.fromBits(d.select(isSmall, subnormal, normal));
}

Value codegen::exponential32(Real &d, Value x) {
  // Below, the result is 0.
  Value limited = d.select(d.is(F::OLT, x, -105.0), d.c(-105.0), x);
  Value k = d.nearest(d.mul(limited, d.c(0x1.715476p+0)));
  Value minusK = d.neg(k);
  Value r =
      d.fma(minusK, d.c(kLog2Low), d.fma(minusK, d.c(kLog2High), limited));
  // (e^r - 1 - r) / r^2, within 3e-9 of e^r.
  Value tail = d.polynomial(
      r, {0.49999994f, 0.16666521f, 0.04166839f, 0.0083687175f, 0.0013814596f});
  Value series = d.fma(d.mul(r, r), tail, r);
  Value found = timesPowerOfTwo(d, d.add(series, d.c(1.0)), k);
  // Infinite above the largest operand of a finite result; NaN of a NaN.
  return d.select(d.is(F::OLE, x, 0x1.62e42ep+6), found,
                  d.add(x, d.c(INFINITY)));
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
