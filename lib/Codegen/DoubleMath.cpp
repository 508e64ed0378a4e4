//===- DoubleMath.cpp - Exponentials, logarithms, powers in F64 -----------===//
//
// Arguments are reduced exactly by a power of two, and a short series gives the
// rest. A power needs more bits of its logarithm than F64 holds, 11 for its
// exponent alone, so a logarithm is a sum of two numbers.
//
//===----------------------------------------------------------------------===//

#include "RealMath.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

using F = Real::F;

static constexpr double kLog2OfE = 1.4426950408889634;
// log 2 in two parts. The high part has 42 bits, so that its product with an
// exponent is exact.
static constexpr double kLog2High = 0x1.62e42fefa3800p-1,
                        kLog2Low = 0x1.ef35793c76730p-45;

//===----------------------------------------------------------------------===//
// Exponentials
//===----------------------------------------------------------------------===//

namespace {
/// e^x = 2^power * e^rest.
struct Reduced {
  Value power, rest;
};

/// An unevaluated sum: the low part is below the last place of the high one.
struct Sum {
  Value high, low;
};
} // namespace

static Reduced reduce(Real &d, Value x) {
  Value k = d.nearest(d.mul(x, d.c(kLog2OfE)));
  Value minusK = d.neg(k);
  Value rest = d.fma(minusK, d.c(kLog2High), x);
  return {k, d.fma(minusK, d.c(kLog2Low), rest)};
}

/// e^r - 1 - r for |r| < log(2) / 2, divided by r^2.
static Value expTail(Real &d, Value r) {
  return d.polynomial(r, {1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720,
                          1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800,
                          1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0});
}

static Value clamp(Real &d, Value x, double low, double high) {
  x = d.select(d.is(F::OLT, x, low), d.c(low), x);
  return d.select(d.is(F::OGT, x, high), d.c(high), x);
}

/// e^(x + low): overflows to infinity, underflows through subnormal numbers.
static Value exponentialOfSum(Real &d, Value x, Value low) {
  x = clamp(d, x, -760.0, 720.0);
  auto [k, r] = reduce(d, x);
  if (low)
    r = d.add(r, low);
  Value series = d.fma(d.mul(r, r), expTail(d, r), r);
  // In two steps, since 2^1024 overflows; a subnormal result is rounded once.
  Value half = d.floor(d.mul(k, d.c(0.5)));
  Value scale = d.powerOfTwo(half);
  Value grown = d.fma(series, scale, scale);
  return d.mul(grown, d.powerOfTwo(d.sub(k, half)));
}

Value codegen::exponential(Real &d, Value x) {
  return exponentialOfSum(d, x, Value());
}

Value codegen::exponentialMinusOne(Real &d, Value x) {
  // Above these limits both this and e^x are infinite; below, this is -1.
  auto [k, r] = reduce(d, clamp(d, x, -60.0, 720.0));
  Value series = d.fma(d.mul(r, r), expTail(d, r), r);
  Value scale = d.powerOfTwo(d.sub(k, d.c(1.0)));
  scale = d.select(d.is(F::OGE, k, 1025.0), d.c(INFINITY), scale);
  Value half = d.fma(series, scale, d.sub(scale, d.c(0.5)));
  Value found = d.mul(half, d.c(2.0));
  Value isInfinite = d.is(F::OGT, x, 709.782712893384);
  found = d.select(isInfinite, d.c(INFINITY), found);
  return d.select(d.is(F::OLT, d.abs(x), 0x1p-54), x, found);
}

Value codegen::hyperbolicTangent(Real &d, Value x) {
  // From 20 on the result is 1.
  Value size = d.select(d.is(F::OGT, d.abs(x), 20.0), d.c(20.0), d.abs(x));
  Value grown = exponentialMinusOne(d, d.mul(size, d.c(2.0)));
  return d.withSign(d.div(grown, d.add(grown, d.c(2.0))), x);
}

//===----------------------------------------------------------------------===//
// Logarithms
//===----------------------------------------------------------------------===//

/// Splits a positive finite x into 2^exponent * mantissa, with a mantissa from
/// sqrt(1/2) to sqrt(2).
static std::pair<Value, Value> takeApart(Real &d, Value x) {
  Value lift;
  if (!d.isNarrow()) {
    Value isSubnormal = d.is(F::OLT, x, 0x1p-1022);
    x = d.select(isSubnormal, d.mul(x, d.c(0x1p54)), x);
    lift = d.select(isSubnormal, d.c(54.0), d.c(0.0));
  }
  Value word = d.bits(x);
  Value shifted = d.make<arith::SubIOp>(word, d.ci(0x3fe6a09e667f3bcdll));
  Value exponent = d.make<arith::ShRSIOp>(shifted, d.ci(52));
  Value mantissa = d.fromBits(
      d.make<arith::SubIOp>(word, d.make<arith::ShLIOp>(exponent, d.ci(52))));
  Value k = d.toReal(exponent);
  return {lift ? d.sub(k, lift) : k, mantissa};
}

/// Returns x + y as an unevaluated sum, for |x| >= |y| or x = 0.
static Sum sumOf(Real &d, Value x, Value y) {
  Value sum = d.add(x, y);
  return {sum, d.sub(y, d.sub(sum, x))};
}

/// Natural logarithm of a positive finite x, to some 65 bits. Of the series 2
/// (s + s^3 / 3 + ..), s = (m - 1) / (m + 1), two terms are unevaluated sums.
static Sum logarithmAsSum(Real &d, Value x) {
  auto [k, m] = takeApart(d, x);
  Value f = d.sub(m, d.c(1.0)), t = d.add(m, d.c(1.0));
  Value tLow = d.sub(f, d.sub(t, d.c(2.0)));
  Value s = d.div(f, t);
  Value rest = d.fma(d.neg(s), tLow, d.fma(d.neg(s), t, f));
  Value sLow = d.div(rest, t);
  Value s2 = d.mul(s, s);
  Value s2Low = d.fma(d.add(s, s), sLow, d.fma(s, s, d.neg(s2)));
  Value s3 = d.mul(s2, s);
  Value s3Low = d.fma(s2, sLow, d.fma(s2Low, s, d.fma(s2, s, d.neg(s3))));
  // 2/3 s^3.
  constexpr double third = 2.0 / 3, thirdLow = 0x1.5555555555555p-55;
  Value cube = d.mul(s3, d.c(third));
  Value cubeLow = d.fma(s3, d.c(third), d.neg(cube));
  cubeLow = d.add(cubeLow, d.fma(s3, d.c(thirdLow), d.mul(s3Low, d.c(third))));
  Value tail =
      d.mul(d.mul(s3, s2),
            d.polynomial(s2, {2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13,
                              2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21}));
  Sum sum = sumOf(d, d.mul(k, d.c(kLog2High)), d.add(s, s));
  Sum more = sumOf(d, sum.high, cube);
  Value low = d.add(d.add(sum.low, more.low),
                    d.fma(k, d.c(kLog2Low), d.add(sLow, sLow)));
  return sumOf(d, more.high, d.add(low, d.add(cubeLow, tail)));
}

/// Extends the logarithm of positive finite numbers to every x.
static Value extendLogarithm(Real &d, Value x, Value found) {
  found = d.select(d.is(F::OEQ, x, 0.0), d.c(-INFINITY), found);
  found = d.select(d.is(F::OEQ, x, INFINITY), x, found);
  return d.select(d.is(F::ULT, x, 0.0), d.c(NAN), found);
}

static Value usual(Real &d, Value x) {
  Value isUsual = d.both(d.is(F::OGT, x, 0.0), d.is(F::OLT, x, INFINITY));
  return d.select(isUsual, x, d.c(1.0));
}

Value codegen::logarithm(Real &d, Value x) {
  return extendLogarithm(d, x, logarithmAsSum(d, usual(d, x)).high);
}

Value codegen::logarithmPlusOne(Real &d, Value x) {
  Value sum = d.add(x, d.c(1.0));
  // The rounding error of the sum.
  Value isLarge = d.is(F::OGT, x, 1.0);
  Value lost = d.select(isLarge, d.sub(d.c(1.0), d.sub(sum, x)),
                        d.sub(x, d.sub(sum, d.c(1.0))));
  Value inside = usual(d, sum);
  Value found = d.add(logarithmAsSum(d, inside).high, d.div(lost, inside));
  found = extendLogarithm(d, sum, found);
  return d.select(d.is(F::OLT, d.abs(x), 0x1p-54), x, found);
}

//===----------------------------------------------------------------------===//
// Powers
//===----------------------------------------------------------------------===//

/// |x|^y for any numbers.
static Value powerOfMagnitude(Real &d, Value size, Value y) {
  Value infinity = d.c(INFINITY), zero = d.c(0.0);
  Sum log = logarithmAsSum(d, usual(d, size));
  Value product = d.mul(log.high, y);
  Value low = d.fma(log.low, y, d.fma(log.high, y, d.neg(product)));
  // Where e^x over- or underflows, the low part has no effect, and may be NaN.
  Value counts = d.is(F::OLT, d.abs(product), 760.0);
  Value found = exponentialOfSum(d, product, d.select(counts, low, zero));
  Value grows = d.is(F::OGT, y, 0.0);
  found =
      d.select(d.is(F::OEQ, size, 0.0), d.select(grows, zero, infinity), found);
  found = d.select(d.is(F::OEQ, size, INFINITY),
                   d.select(grows, infinity, zero), found);
  return d.select(d.is(F::OEQ, size, 1.0), size, found);
}

Value codegen::power(Real &d, Value x, Value y) {
  Value size = d.abs(x);
  Value found = powerOfMagnitude(d, size, y);
  // A negative base needs an integer exponent, whose parity is the sign.
  Value isInteger = d.compare(F::OEQ, d.floor(y), y);
  Value half = d.mul(y, d.c(0.5));
  Value isEven = d.compare(F::OEQ, half, d.floor(half));
  Value isOdd = d.both(isInteger, d.isNot(isEven));
  found = d.select(isOdd, d.withSign(found, x), found);
  Value isNegative = d.both(d.is(F::OLT, x, 0.0), d.is(F::OLT, size, INFINITY));
  found = d.select(d.both(isNegative, d.isNot(isInteger)), d.c(NAN), found);
  found = d.select(d.compare(F::UNO, x, y), d.c(NAN), found);
  found = d.select(d.is(F::OEQ, x, 1.0), x, found);
  return d.select(d.is(F::OEQ, y, 0.0), d.c(1.0), found);
}

Value codegen::cubeRoot(Real &d, Value x) {
  Value size = d.abs(x), inside = usual(d, size);
  Value root = powerOfMagnitude(d, inside, d.c(1.0 / 3));
  // 1/3 is rounded, so one Newton step follows.
  Value off = d.sub(root, d.div(inside, d.mul(root, root)));
  root = d.sub(root, d.mul(off, d.c(1.0 / 3)));
  root = d.select(d.compare(F::OEQ, inside, size), root, size);
  return d.withSign(root, x);
}

//===----------------------------------------------------------------------===//
// Remainders
//===----------------------------------------------------------------------===//

/// The remainder of a non-negative x by a positive y, for quotients below 2^52.
static Value smallRemainder(Real &d, Value x, Value y) {
  Value q = d.make<math::TruncOp>(d.div(x, y));
  Value r = d.fma(d.neg(q), y, x);
  // The quotient may have been rounded up to the next integer.
  return d.select(d.is(F::OLT, r, 0.0), d.add(r, y), r);
}

/// Reduces by y 2^k, from large k on: each quotient is below 2^kStep.
static Value largeRemainder(Real &d, Value x, Value y) {
  constexpr int64_t kStep = 40;
  int64_t most = d.isNarrow() ? 280 : 2100;
  for (int64_t k = (most / kStep) * kStep; k > 0; k -= kStep) {
    // In several steps, since 2^k may overflow.
    Value by = d.mul(y, d.c(std::ldexp(1.0, std::min<int64_t>(k, 1000))));
    for (int64_t left = k - 1000; left > 0; left -= 1000)
      by = d.mul(by, d.c(std::ldexp(1.0, std::min<int64_t>(left, 1000))));
    Value fits = d.compare(F::OLE, by, x);
    x = d.select(fits, smallRemainder(d, x, d.select(fits, by, d.c(1.0))), x);
  }
  return x;
}

Value codegen::remainder(Real &d, Value x, Value y) {
  Value xSize = d.abs(x), ySize = d.abs(y);
  Value isUsual = d.both(
      d.both(d.is(F::OLT, xSize, INFINITY), d.is(F::OLT, ySize, INFINITY)),
      d.is(F::OGT, ySize, 0.0));
  Value dividend = d.select(isUsual, xSize, d.c(0.0));
  Value divisor = d.select(isUsual, ySize, d.c(1.0));
  Value isLarge = d.is(F::OGE, d.div(dividend, divisor), 0x1p40);
  auto branch = scf::IfOp::create(d.b, d.loc, d.number, d.any(isLarge),
                                  /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(d.b);
    d.b.setInsertionPointToStart(branch.thenBlock());
    Value large = largeRemainder(d, dividend, divisor);
    scf::YieldOp::create(d.b, d.loc, large);
    d.b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(d.b, d.loc, dividend);
  }
  Value found = smallRemainder(d, branch.getResult(0), divisor);
  found = d.withSign(found, x);
  // The remainder of infinity or by zero is NaN; by infinity it is x.
  Value keeps =
      d.both(d.is(F::OLT, xSize, INFINITY), d.is(F::OEQ, ySize, INFINITY));
  found = d.select(isUsual, found, d.c(NAN));
  return d.select(keeps, x, found);
}
