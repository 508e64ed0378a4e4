//===- ComplexMath.cpp - Functions of complex numbers by parts ------------===//
//
// Formulas are those of the textbooks (Abramowitz and Stegun 1964, 3.7 and
// 4.3-4.5), those of inverse functions Kahan's ("Branch cuts for complex
// elementary functions", 1987), in forms whose intermediate values overflow no
// earlier than the result, as far as that is cheap. Special values are those of
// the parts' arithmetic: complex infinities have no sign that all libraries
// agree on.
//
//===----------------------------------------------------------------------===//

#include "ComplexMath.h"

#include "../SpecialFunctions.h"

#include "scalify/Dialect/CHLO/CHLO.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace scalify;
using namespace scalify::import;
using namespace scalify::stablehlo;

Parts import::operator+(Parts x, Parts y) { return {x.re + y.re, x.im + y.im}; }

Parts import::operator-(Parts x, Parts y) { return {x.re - y.re, x.im - y.im}; }

Parts import::operator*(Parts x, Parts y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

static Parts negated(Parts x) { return {0.0 - x.re, 0.0 - x.im}; }

static Parts scaled(Parts x, Real by) { return {x.re * by, x.im * by}; }

Parts import::operator/(Parts x, Parts y) {
  Value isWide = abs(y.re).compare(ComparisonDirection::GE, abs(y.im));
  Real large = select(isWide, y.re, y.im), small = select(isWide, y.im, y.re);
  Real ratio = small / large;
  Real denominator = large + small * ratio;
  // (a + ib) / (c + id): with |c| >= |d|, r = d / c: (a + br), (b - ar).
  // Otherwise, with r = c / d: (ar + b), (br - a).
  Real re = select(isWide, x.re + x.im * ratio, x.re * ratio + x.im);
  Real im = select(isWide, x.im - x.re * ratio, x.im * ratio - x.re);
  return {re / denominator, im / denominator};
}

Real import::magnitude(Parts x) {
  Real a = abs(x.re), b = abs(x.im);
  Real large = a.apply<MaxOp>(b), small = a.apply<MinOp>(b);
  Real ratio = small / large;
  Real found = large * sqrt(ratio * ratio + 1.0);
  // 0 / 0, and infinity / infinity.
  Value isPlain = small.compare(ComparisonDirection::EQ, large);
  Real diagonal = large * 1.4142135623730951;
  return select(isPlain, diagonal, found);
}

static Real cosine(Real x) { return x.apply<CosineOp>(); }
static Real sine(Real x) { return x.apply<SineOp>(); }
static Real cosh(Real x) { return (exp(x) + exp(0.0 - x)) * 0.5; }

/// sinh x = (e + e / (e + 1)) / 2 with e = expm1(x), exact near 0.
static Real sinh(Real x) {
  Real e = expm1(abs(x));
  return withSign((e + e / (e + 1.0)) * 0.5, x);
}

static Parts exponential(Parts x) {
  Real size = exp(x.re);
  // exp of a real number has no imaginary part, even if it is infinite.
  Value isReal = x.im.compare(ComparisonDirection::EQ, x.im.like(0));
  return {select(isReal, size, size * cosine(x.im)),
          select(isReal, x.im, size * sine(x.im))};
}

static Parts exponentialMinusOne(Parts x) {
  Real half = sine(x.im * 0.5);
  return {expm1(x.re) * cosine(x.im) - half * half * 2.0,
          exp(x.re) * sine(x.im)};
}

static Parts logarithm(Parts x) {
  return {log(magnitude(x)), atan2(x.im, x.re)};
}

static Parts logarithmPlusOne(Parts x) {
  // |1 + x|^2 - 1 = a (a + 2) + b^2, exact near 0.
  Real near = log1p(x.re * (x.re + 2.0) + x.im * x.im) * 0.5;
  Real far = log(magnitude({x.re + 1.0, x.im}));
  Value isNear = magnitude(x).isLess(0.5);
  return {select(isNear, near, far), atan2(x.im, x.re + 1.0)};
}

static Parts squareRoot(Parts x) {
  // The part of the larger magnitude has no cancellation.
  Real half = sqrt((abs(x.re) + magnitude(x)) * 0.5);
  Real other = x.im / (half * 2.0);
  Value isZero = half.compare(ComparisonDirection::EQ, half.like(0));
  other = select(isZero, x.im, other);
  Value isLeft = x.re.isLess(0);
  Value isBelow = x.im.isLess(0);
  return {select(isLeft, abs(other), half),
          select(isLeft, select(isBelow, 0.0 - half, half), other)};
}

static Parts hyperbolicTangent(Parts x) {
  // (t (1 + u^2) + i u (1 - t^2)) / (1 + t^2 u^2), t = tanh a, u = tan b.
  Real t = x.re.apply<TanhOp>(), u = x.im.apply<TanOp>();
  Real tt = t * t, uu = u * u;
  Real inverse = t.like(1) / (tt * uu + 1.0);
  return {t * (uu + 1.0) * inverse, u * (1.0 - tt) * inverse};
}

static Parts turned(Parts x) { return {0.0 - x.im, x.re}; } // i x

static Parts tangent(Parts x) { // -i tanh(i x)
  Parts t = hyperbolicTangent(turned(x));
  return {t.im, 0.0 - t.re};
}

static Parts hyperbolicSine(Parts x) {
  return {sinh(x.re) * cosine(x.im), cosh(x.re) * sine(x.im)};
}

static Parts cosineOf(Parts x) {
  return {cosine(x.re) * cosh(x.im), 0.0 - sine(x.re) * sinh(x.im)};
}

static Parts areaTangent(Parts x) {
  return scaled(logarithmPlusOne(x) - logarithmPlusOne(negated(x)),
                x.re.like(0.5));
}

static Real realAreaSine(Real x) { return {x.b, buildAsinh(*x.b, x.value)}; }

/// The square roots of 1 - x and 1 + x. Kahan's formulas take their products.
static std::pair<Parts, Parts> rootsAtOne(Parts x) {
  return {squareRoot({1.0 - x.re, 0.0 - x.im}), squareRoot({x.re + 1.0, x.im})};
}

static Parts arcSine(Parts x) {
  auto [minus, plus] = rootsAtOne(x);
  return {atan2(x.re, minus.re * plus.re - minus.im * plus.im),
          realAreaSine(minus.re * plus.im - minus.im * plus.re)};
}

static Parts arcCosine(Parts x) {
  auto [minus, plus] = rootsAtOne(x);
  return {atan2(minus.re, plus.re) * 2.0,
          realAreaSine(plus.re * minus.im - plus.im * minus.re)};
}

static Parts areaSine(Parts x) { // -i arcsin(i x)
  Parts t = arcSine(turned(x));
  return {t.im, 0.0 - t.re};
}

static Parts areaCosine(Parts x) {
  Parts minus = squareRoot({x.re + -1.0, x.im});
  Parts plus = squareRoot({x.re + 1.0, x.im});
  return {realAreaSine(minus.re * plus.re + minus.im * plus.im),
          atan2(minus.im, plus.re) * 2.0};
}

static Parts one(Parts like) { return {like.re.like(1), like.re.like(0)}; }

static Parts sign(Parts x) {
  Real size = magnitude(x);
  Value isZero = size.compare(ComparisonDirection::EQ, size.like(0));
  return {select(isZero, size, x.re / size), select(isZero, size, x.im / size)};
}

static Parts raised(Parts x, Parts y) {
  // |x|^c e^(-d t) at the angle d log |x| + c t, for y = c + id and t = arg x:
  // a power of a real number, not an exponential of its rounded logarithm.
  Real size = magnitude(x), turn = atan2(x.im, x.re);
  Real length = power(size, y.re) * exp(0.0 - y.im * turn);
  Real angle = y.im * log(size) + y.re * turn;
  Parts found = {length * cosine(angle), length * sine(angle)};
  // 0^y: 0 for a positive real part of y, 1 for y = 0.
  Value isZero = magnitude(x).compare(ComparisonDirection::EQ, x.re.like(0));
  Value isOne = magnitude(y).compare(ComparisonDirection::EQ, y.re.like(0));
  Real atZero = select(isOne, y.re.like(1), y.re.like(0));
  return {select(isZero, atZero, found.re),
          select(isZero, x.re.like(0), found.im)};
}

std::optional<Parts> import::buildComplex(Operation *op,
                                          ArrayRef<Parts> operands) {
  Parts x = operands.front(), y = operands.back();
  using Result = std::optional<Parts>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](MulOp) { return x * y; })
      .Case([&](DivOp) { return x / y; })
      .Case([&](PowOp) { return raised(x, y); })
      .Case([&](Atan2Op) { // -i log((v + i u) / sqrt(u^2 + v^2))
        Parts t = logarithm((y + turned(x)) / squareRoot(x * x + y * y));
        return Parts{t.im, 0.0 - t.re};
      })
      .Case([&](ExpOp) { return exponential(x); })
      .Case([&](Expm1Op) { return exponentialMinusOne(x); })
      .Case([&](LogOp) { return logarithm(x); })
      .Case([&](Log1pOp) { return logarithmPlusOne(x); })
      .Case([&](SqrtOp) { return squareRoot(x); })
      .Case([&](RsqrtOp) { return one(x) / squareRoot(x); })
      .Case([&](CbrtOp) {
        return exponential(scaled(logarithm(x), x.re.like(1.0 / 3)));
      })
      .Case([&](SineOp) { // -i sinh(i x)
        Parts t = hyperbolicSine(turned(x));
        return Parts{t.im, 0.0 - t.re};
      })
      .Case([&](CosineOp) { return cosineOf(x); })
      .Case([&](TanOp) { return tangent(x); })
      .Case([&](TanhOp) { return hyperbolicTangent(x); })
      .Case([&](LogisticOp) {
        return one(x) / (one(x) + exponential(negated(x)));
      })
      .Case([&](SignOp) { return sign(x); })
      .Case([&](chlo::SinhOp) { return hyperbolicSine(x); })
      .Case([&](chlo::CoshOp) { return cosineOf(turned(x)); })
      .Case([&](chlo::AsinOp) { return arcSine(x); })
      .Case([&](chlo::AcosOp) { return arcCosine(x); })
      .Case([&](chlo::AsinhOp) { return areaSine(x); })
      .Case([&](chlo::AcoshOp) { return areaCosine(x); })
      .Case([&](chlo::ConjOp) { return Parts{x.re, 0.0 - x.im}; })
      .Case([&](chlo::AtanhOp) { return areaTangent(x); })
      .Case([&](chlo::AtanOp) { // -i artanh(i x)
        Parts t = areaTangent(turned(x));
        return Parts{t.im, 0.0 - t.re};
      })
      .Default([](Operation *) { return std::nullopt; });
}
