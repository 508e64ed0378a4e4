//===- DoubleErrorFunctions.cpp - erf, erfc and erf_inv in f64 ------------===//
//
// The same method as in f32 (ErrorFunctions.cpp), with more terms: erf near
// zero is its power series. Q is a polynomial in t, mapped from [-0.6, 1] to
// [-1, 1], and interpolates exp(a^2) erfc(a) (a + 2) at Chebyshev points
// (1e-16).
//
// erf_inv is Newton's iteration: on erf near zero, and further out on log erfc,
// which is nearly a parabola. It starts from the f32 result or, near 1 where
// f32 is exhausted, from the first terms of erfc's asymptotic series.
//
//===----------------------------------------------------------------------===//

#include "ErrorFunctions.h"

#include "RealOps.h"

#include <limits>

using namespace scalify;
using namespace scalify::import;

static constexpr double kPi = 3.14159265358979323846;
// 2 / sqrt(pi).
static constexpr double kSlope = 1.12837916709551257390;
static constexpr double kQ[] = {
    0.89500575590694975,    -0.46430074427237158,    0.16193915053222428,
    -0.025918946162162881,  -0.005522382160849116,   0.0030169006460050818,
    0.00032789201206057383, -0.00035635721104287585, -5.3646343484373524e-5,
    4.5974337039040187e-5,  1.3752969863727654e-5,   -5.2426318424552953e-6,
    -3.4010202729050804e-6, 1.6224953736223718e-7,   6.8885160074260515e-7,
    1.681597657815361e-7,   -9.0589138964197186e-8,  -6.5834793180623462e-8,
    -1.1699844910976465e-9, 1.3602267128368201e-8,   3.6278427902222847e-9,
    -1.3496806469725464e-9, -6.017765731480542e-10};

/// Computes erf(x) for |x| up to 1/2.
static Real erfNearZero(Real x) {
  double factorial = 1;
  SmallVector<double> terms;
  for (int n = 0; n < 13; ++n) {
    terms.push_back((n % 2 ? -kSlope : kSlope) / (factorial * (2 * n + 1)));
    factorial *= n + 1;
  }
  return x * horner(terms, x * x);
}

/// Computes exp(a^2) erfc(a) for a >= 1/2.
static Real scaledErfc(Real a) {
  // Beyond 28 erfc is zero; the bound keeps t finite at infinity.
  Real bounded = a.apply<stablehlo::MinOp>(a.like(28));
  Real t = (bounded + -2.0) / (bounded + 2.0);
  return horner(kQ, (t + -0.2) * 1.25) / (a + 2.0);
}

static Real erfcFar(Real a) { return exp(a * a * -1.0) * scaledErfc(a); }

Value import::buildDoubleErf(ImplicitLocOpBuilder &b, Value operand) {
  Real x{&b, operand}, a = abs(x);
  return select(a.isLess(0.5), erfNearZero(x), withSign(1.0 - erfcFar(a), x))
      .value;
}

Value import::buildDoubleErfc(ImplicitLocOpBuilder &b, Value operand) {
  Real x{&b, operand}, a = abs(x);
  Real far = erfcFar(a);
  far = select(x.isLess(0), 2.0 - far, far);
  return select(a.isLess(0.5), 1.0 - erfNearZero(x), far).value;
}

Value import::buildDoubleErfInv(ImplicitLocOpBuilder &b, Value operand,
                                Value start) {
  Real x{&b, operand}, a = abs(x), first = abs({&b, start});
  Real near = first;
  for (int i = 0; i < 2; ++i)
    near = near - (erfNearZero(near) - a) * exp(near * near) * (1 / kSlope);
  // Solve log erfc(y) = log(1 - a).
  Real wanted = log(1.0 - a);
  Real far = sqrt((wanted + log(wanted * -kPi) * 0.5) * -1.0);
  far = select(a.isLess(1 - 0x1p-20), first, far);
  for (int i = 0; i < 3; ++i) {
    Real scaled = scaledErfc(far);
    Real error = log(scaled) - far * far - wanted;
    far = far + error * scaled * (1 / kSlope);
  }
  // erf(0.4994) is 0.52: the power series holds below.
  Real found = withSign(select(a.isLess(0.52), near, far), x);
  Real infinite = x * std::numeric_limits<double>::infinity();
  return select(a.compare(ComparisonDirection::EQ, a.like(1)), infinite, found)
      .value;
}
