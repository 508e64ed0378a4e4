//===- Trigonometry.cpp - Sines, cosines, tangents, arctangents -----------===//
//
// An angle is a number of quarter turns and a rest. For |x| up to 2^20, pi/2 in
// three parts gives the rest to the last bit. Beyond, the bits of 2/pi that
// matter for the angle's exponent are multiplied as integers, and whole turns
// overflow at the top (Payne and Hanek, "Radian reduction for trigonometric
// functions", 1983). Large angles are rare, so this is in a branch.
//
//===----------------------------------------------------------------------===//

#include "RealMath.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

using F = Real::F;

// pi/2 in three parts, each the nearest F64 to the remainder.
static constexpr double kHalfPi = 0x1.921fb54442d18p+0,
                        kHalfPiLow = 0x1.1a62633145c07p-54,
                        kHalfPiLowest = -0x1.f1976b7ed8fbcp-110;

// 2/pi, from the bit of 1/2 on, after a word of zeros.
static constexpr uint64_t kTwoOverPi[] = {0,
                                          0xa2f9836e4e441529,
                                          0xfc2757d1f534ddc0,
                                          0xdb6295993c439041,
                                          0xfe5163abdebbc561,
                                          0xb7246e3a424dd2e0,
                                          0x06492eea09d1921c,
                                          0xfe1deb1cb129a73e,
                                          0xe88235f52ebb4484,
                                          0xe99c7026b45f7e41,
                                          0x3991d639835339f4,
                                          0x9c845f8bbdf9283b,
                                          0x1ff897ffde05980f,
                                          0xef2f118b5a0a6d1f,
                                          0x6d367ecf27cb09b7,
                                          0x4f463f669e5fea2d,
                                          0x7527bac7ebe5f17b,
                                          0x3d0739f78a5292ea,
                                          0x6bfb5fb11f8d5d08,
                                          0x56033046fc7b6bab,
                                          0xf0cfbc209af4361d};

namespace {
/// x = quarters * pi/2 + rest, where quarters is known modulo 4.
struct Angle {
  Value quarters, rest, restLow;
};

/// Operations on 64-bit words, scalars or vectors.
struct Words {
  Real &d;

  Value c(uint64_t value) { return d.ci(static_cast<int64_t>(value)); }
  Value add(Value x, Value y) { return d.make<arith::AddIOp>(x, y); }
  Value sub(Value x, Value y) { return d.make<arith::SubIOp>(x, y); }
  Value mul(Value x, Value y) { return d.make<arith::MulIOp>(x, y); }
  Value band(Value x, uint64_t y) { return d.make<arith::AndIOp>(x, c(y)); }
  Value bor(Value x, Value y) { return d.make<arith::OrIOp>(x, y); }
  Value shl(Value x, Value n) { return d.make<arith::ShLIOp>(x, n); }
  Value shr(Value x, Value n) { return d.make<arith::ShRUIOp>(x, n); }
  Value isLess(Value x, Value y) {
    return d.make<arith::CmpIOp>(arith::CmpIPredicate::ult, x, y);
  }
  Value isEqual(Value x, uint64_t y) {
    return d.make<arith::CmpIOp>(arith::CmpIPredicate::eq, x, c(y));
  }
  /// The upper word of a product.
  Value high(Value x, Value y) {
    return arith::MulUIExtendedOp::create(d.b, d.loc, x, y).getHigh();
  }
  Value carry(Value sum, Value part) {
    return d.make<arith::ExtUIOp>(d.word(), isLess(sum, part));
  }
};
} // namespace

/// Reduces |x| up to 2^20.
static Angle reduceSmallAngle(Real &d, Value x) {
  Value k = d.nearest(d.mul(x, d.c(0.63661977236758134)));
  Value minusK = d.neg(k);
  Value first = d.fma(minusK, d.c(kHalfPi), x);
  Value rest = d.fma(minusK, d.c(kHalfPiLow), first);
  Value lost = d.fma(minusK, d.c(kHalfPiLow), d.sub(first, rest));
  return {k, rest, d.fma(minusK, d.c(kHalfPiLowest), lost)};
}

/// Returns three words of 2/pi starting at a bit, which differs between lanes.
static SmallVector<Value, 3> bitsFrom(Words &w, Value bit, int64_t lastWord) {
  Real &d = w.d;
  Value word = w.shr(bit, w.c(6)), shift = w.band(bit, 63);
  SmallVector<Value, 4> found;
  for (int64_t j = 0; j < 4; ++j) {
    Value value = w.c(kTwoOverPi[j]);
    for (int64_t i = 1; i <= lastWord; ++i)
      value = d.select(w.isEqual(word, i), w.c(kTwoOverPi[i + j]), value);
    found.push_back(value);
  }
  SmallVector<Value, 3> shifted;
  Value back = w.sub(w.c(63), shift);
  for (int64_t j = 0; j < 3; ++j)
    shifted.push_back(w.bor(w.shl(found[j], shift),
                            w.shr(w.shr(found[j + 1], w.c(1)), back)));
  return shifted;
}

/// Reduces finite numbers from 1/256 on; for others the rest is arbitrary.
static Angle reduceLargeAngle(Real &d, Value x) {
  Words w{d};
  Value word = d.bits(d.abs(x));
  Value exponent = w.shr(word, w.c(52));
  // x = mantissa * 2^(exponent - 1075).
  Value mantissa =
      w.bor(w.band(word, (uint64_t(1) << 52) - 1), w.c(uint64_t(1) << 52));
  // Bits of 2/pi that contribute only whole turns are left out: those of weight
  // 2^(2 - e) and above, e = exponent - 1075.
  Value bit = w.sub(exponent, w.c(1075 + 2 - 64));
  // The largest exponents are 75 of F32 and 971 of F64.
  auto parts = bitsFrom(w, bit, d.isNarrow() ? 2 : 16);
  // The upper two of three words of the product: a turn is 2^128.
  Value low = w.mul(mantissa, parts[1]);
  Value lower = w.add(low, w.high(mantissa, parts[2]));
  Value upper = w.add(w.mul(mantissa, parts[0]), w.high(mantissa, parts[1]));
  upper = w.add(upper, w.carry(lower, low));
  // Round to the nearest quarter turn.
  Value quarters = w.shr(w.add(upper, w.c(uint64_t(1) << 61)), w.c(62));
  Value left = w.sub(upper, w.shl(quarters, w.c(62)));
  Value rest = d.mul(d.make<arith::SIToFPOp>(d.number, left), d.c(0x1p-62));
  Value restLow =
      d.mul(d.make<arith::UIToFPOp>(d.number, lower), d.c(0x1p-126));
  rest = d.mul(d.add(rest, restLow), d.c(kHalfPi));
  // So far for |x|: negative angles negate quarters and rest.
  Value isNegative = d.is(F::OLT, x, 0.0);
  Value count = d.toReal(w.band(quarters, 3));
  return {d.select(isNegative, d.neg(count), count),
          d.select(isNegative, d.neg(rest), rest), d.c(0.0)};
}

static Angle reduceAngle(Real &d, Value x) {
  Value isLarge = d.is(F::OGT, d.abs(x), 0x1p20);
  Value inside = d.select(isLarge, d.c(0.0), x);
  Angle small = reduceSmallAngle(d, inside);
  Type f64 = d.number;
  auto branch = scf::IfOp::create(d.b, d.loc, TypeRange{f64, f64, f64},
                                  d.any(isLarge), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(d.b);
  d.b.setInsertionPointToStart(branch.thenBlock());
  Angle large = reduceLargeAngle(d, x);
  scf::YieldOp::create(
      d.b, d.loc,
      ValueRange{d.select(isLarge, large.quarters, small.quarters),
                 d.select(isLarge, large.rest, small.rest),
                 d.select(isLarge, large.restLow, small.restLow)});
  d.b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(d.b, d.loc,
                       ValueRange{small.quarters, small.rest, small.restLow});
  return {branch.getResult(0), branch.getResult(1), branch.getResult(2)};
}

/// The sine of a rest of up to pi/4.
static Value sineOfRest(Real &d, const Angle &angle) {
  Value r = angle.rest, r2 = d.mul(r, r);
  Value tail =
      d.polynomial(r2, {-1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880,
                        -1.0 / 39916800, 1.0 / 6227020800.0,
                        -1.0 / 1307674368000.0, 1.0 / 355687428096000.0});
  Value cube = d.mul(r2, r);
  // The sign of -0 is lost here; sine and tangent restore it.
  return d.add(r, d.fma(cube, tail, angle.restLow));
}

static Value cosineOfRest(Real &d, const Angle &angle) {
  Value r = angle.rest, r2 = d.mul(r, r);
  Value tail = d.polynomial(r2, {1.0 / 24, -1.0 / 720, 1.0 / 40320,
                                 -1.0 / 3628800, 1.0 / 479001600.0,
                                 -1.0 / 87178291200.0, 1.0 / 20922789888000.0});
  Value half = d.mul(r2, d.c(0.5));
  Value near = d.sub(d.c(1.0), half);
  Value lost = d.sub(d.sub(d.c(1.0), near), half);
  Value more = d.fma(d.neg(r), angle.restLow, lost);
  return d.add(near, d.fma(d.mul(r2, r2), tail, more));
}

/// Returns NaN for infinite x and NaN.
static Value ends(Real &d, Value x, Value found) {
  return d.select(d.is(F::OLT, d.abs(x), INFINITY), found, d.c(NAN));
}

/// The sine of x plus `quarters` quarter turns.
static Value shiftedSine(Real &d, Value x, int64_t quarters) {
  Angle angle = reduceAngle(d, x);
  Value turn = d.add(angle.quarters, d.c(static_cast<double>(quarters)));
  // Modulo 4, without leaving floating point.
  Value q = d.fma(d.floor(d.mul(turn, d.c(0.25))), d.c(-4.0), turn);
  Value isOdd =
      d.make<arith::OrIOp>(d.is(F::OEQ, q, 1.0), d.is(F::OEQ, q, 3.0));
  Value found = d.select(isOdd, cosineOfRest(d, angle), sineOfRest(d, angle));
  found = d.select(d.is(F::OGE, q, 2.0), d.neg(found), found);
  return ends(d, x, found);
}

Value codegen::sine(Real &d, Value x) {
  return d.select(d.is(F::OEQ, x, 0.0), x, shiftedSine(d, x, 0));
}

Value codegen::cosine(Real &d, Value x) { return shiftedSine(d, x, 1); }

Value codegen::tangent(Real &d, Value x) {
  Angle angle = reduceAngle(d, x);
  Value half = d.mul(angle.quarters, d.c(0.5));
  Value isEven = d.compare(F::OEQ, half, d.floor(half));
  Value s = sineOfRest(d, angle), c = cosineOfRest(d, angle);
  Value found = d.div(d.select(isEven, s, d.neg(c)), d.select(isEven, c, s));
  found = ends(d, x, found);
  return d.select(d.is(F::OEQ, x, 0.0), x, found);
}

//===----------------------------------------------------------------------===//
// Arctangents
//===----------------------------------------------------------------------===//

/// The arctangent of a slope from 0 to 1, from that of the nearest multiple of
/// 1/4.
static Value angleOfSlope(Real &d, Value slope) {
  struct Known {
    double slope, angle, low;
  };
  static constexpr Known kKnown[] = {
      {0.25, 0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
      {0.5, 0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
      {0.75, 0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
      {1.0, 0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}};
  Value near = d.c(0.0), angle = d.c(0.0), low = d.c(0.0);
  for (const Known &known : kKnown) {
    Value isPast = d.is(F::OGE, slope, known.slope - 0.125);
    near = d.select(isPast, d.c(known.slope), near);
    angle = d.select(isPast, d.c(known.angle), angle);
    low = d.select(isPast, d.c(known.low), low);
  }
  Value rest = d.div(d.sub(slope, near), d.fma(near, slope, d.c(1.0)));
  Value r2 = d.mul(rest, rest);
  Value tail = d.polynomial(r2, {-1.0 / 3, 1.0 / 5, -1.0 / 7, 1.0 / 9,
                                 -1.0 / 11, 1.0 / 13, -1.0 / 15, 1.0 / 17});
  Value more = d.fma(d.mul(r2, rest), tail, low);
  return d.add(angle, d.add(rest, more));
}

Value codegen::arcTangent(Real &d, Value y, Value x) {
  Value ySize = d.abs(y), xSize = d.abs(x);
  Value isSteep = d.compare(F::OGT, ySize, xSize);
  Value less = d.select(isSteep, xSize, ySize);
  Value more = d.select(isSteep, ySize, xSize);
  // Two infinities lie on a diagonal, two zeros on the axis.
  Value slope = d.div(less, more);
  slope = d.select(d.is(F::OEQ, less, INFINITY), d.c(1.0), slope);
  slope = d.select(d.is(F::OEQ, more, 0.0), d.c(0.0), slope);
  Value angle = angleOfSlope(d, slope);
  Value upright = d.add(d.sub(d.c(kHalfPi), angle), d.c(kHalfPiLow));
  angle = d.select(isSteep, upright, angle);
  auto isNegative = [&](Value of) {
    return d.is(F::OLT, d.withSign(d.c(1.0), of), 0.0);
  };
  Value turned = d.add(d.sub(d.c(2 * kHalfPi), angle), d.c(2 * kHalfPiLow));
  angle = d.select(isNegative(x), turned, angle);
  angle = d.select(isNegative(y), d.neg(angle), angle);
  return d.select(d.compare(F::UNO, x, y), d.c(NAN), angle);
}
