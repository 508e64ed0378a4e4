//===- SpecialFunctions.cpp - Arcs, hyperbolics, gamma, zeta, Bessel ------===//
//
// Textbook identities, in forms that keep the last bits: expm1 and log1p near
// zero, and log |x| where a square would overflow.
//
// lgamma and digamma are Lanczos' approximation ("A precision approximation of
// the gamma function", 1964) with Godfrey's coefficients for g = 7, n = 9; they
// use reflection below 1/2. Hurwitz' zeta function, of which polygamma is a
// multiple, is a sum whose remainder is the Euler-Maclaurin formula.
//
// exp(-x) I_1(x) is x P(x / 4 - 1) up to 8, and Q(16 / x - 1) / sqrt(x) beyond.
// P and Q interpolate SciPy's i1e at Chebyshev points, both within 1e-7.
//
//===----------------------------------------------------------------------===//

#include "SpecialFunctions.h"

#include "RealOps.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace scalify;
using namespace scalify::import;
using stablehlo::ComparisonDirection;

static constexpr double kPi = 3.14159265358979323846;
static constexpr double kLog2 = 0.69314718055994530942;

static bool isDouble(Real x) {
  return getElementTypeOrSelf(x.value.getType()).isF64();
}

/// Returns a bound from which x^2 + 1 rounds to x^2.
static double getLarge(Real x) { return isDouble(x) ? 0x1p27 : 0x1p20; }

// asin x = 2 atan(x / (1 + sqrt(1 - x^2))): no cancellation near 1.
Value import::buildAsin(ImplicitLocOpBuilder &b, Value operand) {
  Real x{&b, operand};
  Real cosine = sqrt((1.0 - x) * (x + 1.0));
  return (atan2(x, cosine + 1.0) * 2.0).value;
}

Value import::buildAcos(ImplicitLocOpBuilder &b, Value operand) {
  Real x{&b, operand};
  Real angle = atan2(sqrt((1.0 - x) * (x + 1.0)), x + 1.0) * 2.0;
  // At -1 both arguments of atan2 are zero.
  Value isEnd = x.compare(ComparisonDirection::EQ, x.like(-1));
  return select(isEnd, x.like(kPi), angle).value;
}

Value import::buildAtan(ImplicitLocOpBuilder &b, Value operand) {
  Real x{&b, operand};
  return atan2(x, x.like(1.0)).value;
}

Value import::buildAsinh(ImplicitLocOpBuilder &b, Value operand) {
  Real x{&b, operand}, a = abs(x);
  Real small = log1p(a + a * a / (sqrt(a * a + 1.0) + 1.0));
  return withSign(select(a.isLess(getLarge(x)), small, log(a) + kLog2), x)
      .value;
}

// NaN below 1, as sqrt(d) is.
Value import::buildAcosh(ImplicitLocOpBuilder &b, Value operand) {
  Real x{&b, operand}, d = x + -1.0;
  Real small = log1p(d + sqrt(d) * sqrt(x + 1.0));
  return select(x.isLess(getLarge(x)), small, log(x) + kLog2).value;
}

Value import::buildAtanh(ImplicitLocOpBuilder &b, Value operand) {
  Real x{&b, operand};
  return ((log1p(x) - log1p(x * -1.0)) * 0.5).value;
}

// Computes e^x / 2 and e^-x / 2: for large |x| from the root of e^x, which does
// not overflow before the result and whose argument is exact.
static std::pair<Real, Real> halves(Real x) {
  Real bound = x.like(isDouble(x) ? 600 : 64);
  Value isLarge = abs(x).compare(ComparisonDirection::GT, bound);
  Real e = exp(select(isLarge, x * 0.5, x));
  Real other = select(isLarge, e, e.like(1));
  return {e * 0.5 * other, e.like(0.5) / e / other};
}

Value import::buildCosh(ImplicitLocOpBuilder &b, Value operand) {
  auto [grown, shrunk] = halves({&b, operand});
  return (grown + shrunk).value;
}

Value import::buildSinh(ImplicitLocOpBuilder &b, Value operand) {
  Real x{&b, operand};
  Real grown = expm1(x);
  Real small = (grown + grown / (grown + 1.0)) * 0.5;
  auto [up, down] = halves(x);
  Real large = up - down;
  return select(abs(x).isLess(1.0), small, large).value;
}

static constexpr double kG = 7;
static constexpr double kLanczos[] = {0.99999999999980993227684700473478,
                                      676.520368121885098567009190444019,
                                      -1259.13921672240287047156078755283,
                                      771.3234287776530788486528258894,
                                      -176.61502916214059906584551354,
                                      12.507343278686904814458936853,
                                      -0.13857109526572011689554707,
                                      9.984369578019570859563e-6,
                                      1.50563273514931155834e-7};

namespace {
/// Terms shared by both functions, with z = x - 1, or -x below 1/2.
struct Lanczos {
  explicit Lanczos(Real x)
      : isReflected(x.isLess(0.5)), z(select(isReflected, x * -1.0, x + -1.0)),
        series(x.like(kLanczos[0])), slope(x.like(0)), t(z + (kG + 0.5)),
        logT(log1p(z / (kG + 0.5)) + std::log(kG + 0.5)) {
    for (int i = 1; i < 9; ++i) {
      Real term = x.like(kLanczos[i]) / (z + i);
      series = series + term;
      slope = slope - term / (z + i);
    }
  }
  Value isReflected;
  Real z, series, slope, t, logT;
};
} // namespace

// (z + 1/2) log t - t is one product: the difference would lose bits.
Value import::buildLgamma(ImplicitLocOpBuilder &b, Value operand) {
  Real x{&b, operand};
  Lanczos it(x);
  Real direct = (it.z + 0.5 - it.t / it.logT) * it.logT + log(it.series) +
                0.5 * std::log(2 * kPi);
  // |sin(pi x)| from the distance to the nearest integer.
  Real a = abs(x);
  Real part = a - a.apply<stablehlo::FloorOp>();
  Real near = select(part.isLess(0.5), part, 1.0 - part);
  Real sine = (near * kPi).apply<stablehlo::SineOp>();
  Real reflected = std::log(kPi) - log(sine) - direct;
  // Near 0 it is -log|x|; the sine of a subnormal x has too few bits.
  reflected = select(a.isLess(isDouble(x) ? 0x1p-60 : 0x1p-30),
                     x.like(0.0) - log(a), reflected);
  Real found = select(it.isReflected, reflected, direct);
  Real infinity = x.like(std::numeric_limits<double>::infinity());
  // Large negative x have no fraction and count as poles.
  Value isPole = stablehlo::AndOp::create(
      b, x.isLess(0.5), sine.compare(ComparisonDirection::EQ, sine.like(0.0)));
  found = select(isPole, infinity, found);
  return select(a.compare(ComparisonDirection::EQ, infinity), infinity, found)
      .value;
}

// NaN at zero and the negative integers, as in SciPy except at zero.
Value import::buildDigamma(ImplicitLocOpBuilder &b, Value operand) {
  Real x{&b, operand};
  Lanczos it(x);
  Real direct = it.logT + it.slope / it.series - it.t.like(kG) / it.t;
  // x + 1/2 would be rounded, from half of the largest odd number on.
  Real part = x - x.apply<stablehlo::RoundNearestEvenOp>();
  Real angle = part * kPi;
  Real reflected = direct - angle.apply<stablehlo::CosineOp>() * kPi /
                                angle.apply<stablehlo::SineOp>();
  Real nan = x.like(std::numeric_limits<double>::quiet_NaN());
  Value isPole = stablehlo::AndOp::create(
      b, x.compare(ComparisonDirection::LE, x.like(0)),
      part.compare(ComparisonDirection::EQ, x.like(0)));
  return select(isPole, nan, select(it.isReflected, reflected, direct)).value;
}

// Terms summed one by one, before the integral of the remainder.
static constexpr int kDirectTerms = 12;
// B_2j / (2j)!, for the derivatives that correct the integral.
static constexpr double kBernoulli[] = {1.0 / 12,       -1.0 / 720,
                                        1.0 / 30240,    -1.0 / 1209600,
                                        1.0 / 47900160, -691.0 / 1307674368000};

static Real nan(Real x) {
  return x.like(std::numeric_limits<double>::quiet_NaN());
}

/// NaN below s = 1 and infinity at the poles q = 0, -1, ..., as in SciPy. NaN
/// between the poles below q = -6, where the formula does not hold and XLA
/// returns arbitrary numbers.
static Real zeta(Real s, Real q) {
  // For infinite s the remainder would be 0 times infinity.
  s = s.apply<stablehlo::MinOp>(s.like(1e30));
  Real sum = power(q, s * -1.0);
  for (int k = 1; k < kDirectTerms; ++k)
    sum = sum + power(q + k, s * -1.0);
  Real a = q + kDirectTerms;
  Real integral = power(a, 1.0 - s), edge = integral / a;
  sum = sum + integral / (s + -1.0) + edge * 0.5;
  Real factor = edge * s / a;
  for (auto [j, coefficient] : llvm::enumerate(kBernoulli)) {
    sum = sum + factor * coefficient;
    double order = 2.0 * j + 1;
    factor = factor * ((s + order) / a) * ((s + (order + 1)) / a);
  }
  Real infinity = s.like(std::numeric_limits<double>::infinity());
  Value isPole = stablehlo::AndOp::create(
      *s.b, q.compare(ComparisonDirection::LE, q.like(0)),
      q.compare(ComparisonDirection::EQ, q.apply<stablehlo::FloorOp>()));
  Value isInfinite = stablehlo::OrOp::create(
      *s.b, isPole, s.compare(ComparisonDirection::EQ, s.like(1)));
  sum = select(isInfinite, infinity, select(q.isLess(-6), nan(s), sum));
  Value isNumber = s.compare(ComparisonDirection::GE, s.like(1));
  return select(isNumber, sum, nan(s));
}

Value import::buildZeta(ImplicitLocOpBuilder &b, Value s, Value q) {
  return zeta({&b, s}, {&b, q}).value;
}

// (-1)^(n + 1) n! zeta(n + 1, x), and digamma for n = 0.
Value import::buildPolygamma(ImplicitLocOpBuilder &b, Value order,
                             Value operand) {
  Real n{&b, order}, x{&b, operand};
  Real factorial = exp({&b, buildLgamma(b, (n + 1.0).value)});
  Real found = factorial * zeta(n + 1.0, x);
  auto isWhole = [](Real number) {
    return number.compare(ComparisonDirection::EQ,
                          number.apply<stablehlo::FloorOp>());
  };
  found = select(isWhole(n * 0.5), found * -1.0, found);
  Value isZero = n.compare(ComparisonDirection::EQ, n.like(0));
  found = select(isZero, {&b, buildDigamma(b, operand)}, found);
  return select(isWhole(n), found, nan(n)).value;
}

// Coefficients from the constant term upwards.
static constexpr double kBesselSmall[] = {
    0.0446877102,  -0.0611243072,   0.0680575434,   -0.0684840732,
    0.0637688955,  -0.0552597528,   0.0446594371,   -0.0337968025,
    0.023762642,   -0.0151625689,   0.00936740036,  -0.00628160567,
    0.00336142037, -0.000778703485, 0.000411442196, -0.000728278489,
    0.000307414216};
static constexpr double kBesselLarge[] = {0.389398455,     -0.00974958137,
                                          -0.000219168089, -1.50039655e-05,
                                          -2.00978899e-06, -4.21035015e-07};

Value import::buildBesselI1e(ImplicitLocOpBuilder &b, Value operand) {
  Real x{&b, operand}, a = abs(x);
  if (isDouble(x))
    return buildDoubleBesselI1e(b, operand);
  Real small = horner(kBesselSmall, a * 0.25 + -1.0) * a;
  Real large = horner(kBesselLarge, a.like(16) / a + -1.0) / sqrt(a);
  return withSign(select(a.isLess(8), small, large), x).value;
}
