//===- ErrorFunctions.cpp - erf, erfc and erf_inv in stablehlo ------------===//
//
// erf near zero is x P(x^2). Further out both erf and erfc use
//   E(a) = exp(-a^2) Q(t) / (a + 2), t = (a - 2) / (a + 2), a = |x|,
// since exp(a^2) erfc(a) (a + 2) is smooth in t up to where erfc leaves f32's
// range. P and Q were fitted for least relative error (1.4e-9 and 7e-11). The
// error of E is that of exp(-a^2), whose argument is rounded: a^2 ulp.
//
// erf_inv is Giles' single-precision approximation ("Approximating the erfinv
// function", GPU Computing Gems, 2011): polynomials in w = -log(1 - x^2).
//
//===----------------------------------------------------------------------===//

#include "ErrorFunctions.h"

#include "scalify/Dialect/StableHLO/Values.h"

using namespace mlir;
using namespace scalify;

// erf changes from P to E here: 1 - E loses no bit that P has below.
static constexpr float kSmall = 0.5f;

// Coefficients from the constant term upwards.
static constexpr float kP[] = {1.12837911f, -0.376126081f, 0.112828232f,
                               -0.0267572049f, 0.00471802754f};
static constexpr float kQ[] = {1.0215827f,     -0.6871607f,    0.27947208f,
                               -0.036442306f,  -0.021510558f,  0.0064803706f,
                               0.003089227f,   -0.0008452967f, -0.0006548746f,
                               5.9308626e-05f, 0.00012247013f};
static constexpr float kErfInvCenter[] = {
    1.50140941f,     0.246640727f,    -0.00417768164f,
    -0.00125372503f, 0.00021858087f,  -4.39150654e-06f,
    -3.5233877e-06f, 3.43273939e-07f, 2.81022636e-08f};
static constexpr float kErfInvTail[] = {
    2.83297682f,    1.00167406f,     0.00943887047f,
    -0.0076224613f, 0.00573950773f,  -0.00367342844f,
    0.00134934322f, 0.000100950558f, -0.000200214257f};

static Value constantLike(ImplicitLocOpBuilder &b, Value like, float value) {
  return stablehlo::buildConstant(b, like.getType(), value);
}

static Value horner(ImplicitLocOpBuilder &b, ArrayRef<float> coefficients,
                    Value x) {
  Value sum = constantLike(b, x, coefficients.back());
  for (float coefficient : llvm::reverse(coefficients.drop_back()))
    sum = stablehlo::AddOp::create(b, stablehlo::MulOp::create(b, sum, x),
                                   constantLike(b, x, coefficient));
  return sum;
}

static Value isLess(ImplicitLocOpBuilder &b, Value x, float bound) {
  return stablehlo::CompareOp::create(b, x, constantLike(b, x, bound),
                                      stablehlo::ComparisonDirection::LT,
                                      stablehlo::ComparisonType::FLOAT);
}

namespace {
/// Values that erf and erfc share.
struct Parts {
  Value magnitude; // |x|
  Value nearZero;  // erf(x) for |x| < kSmall
  Value tail;      // erfc(|x|) for |x| >= kSmall
};
} // namespace

static Parts buildParts(ImplicitLocOpBuilder &b, Value x) {
  Value a = stablehlo::AbsOp::create(b, x.getType(), x);
  Value square = stablehlo::MulOp::create(b, x, x);
  Value nearZero = stablehlo::MulOp::create(b, x, horner(b, kP, square));

  Value two = constantLike(b, x, 2.0f);
  Value sum = stablehlo::AddOp::create(b, a, two);
  // Beyond 16 erfc is zero in f32; the bound keeps t finite at infinity.
  Value bounded = stablehlo::MinOp::create(b, a, constantLike(b, x, 16.0f));
  Value t = stablehlo::DivOp::create(
      b, stablehlo::SubtractOp::create(b, bounded, two),
      stablehlo::AddOp::create(b, bounded, two));
  Value decay =
      stablehlo::ExpOp::create(b, stablehlo::NegOp::create(b, square));
  Value tail = stablehlo::MulOp::create(
      b, decay, stablehlo::DivOp::create(b, horner(b, kQ, t), sum));
  return {a, nearZero, tail};
}

static bool isDouble(Value x) {
  return getElementTypeOrSelf(x.getType()).isF64();
}

Value scalify::import::buildErf(ImplicitLocOpBuilder &b, Value x) {
  if (isDouble(x))
    return buildDoubleErf(b, x);
  Parts parts = buildParts(b, x);
  Value one = constantLike(b, x, 1.0f);
  Value far = stablehlo::MulOp::create(
      b, stablehlo::SignOp::create(b, x),
      stablehlo::SubtractOp::create(b, one, parts.tail));
  return stablehlo::SelectOp::create(b, isLess(b, parts.magnitude, kSmall),
                                     parts.nearZero, far);
}

Value scalify::import::buildErfc(ImplicitLocOpBuilder &b, Value x) {
  if (isDouble(x))
    return buildDoubleErfc(b, x);
  Parts parts = buildParts(b, x);
  Value one = constantLike(b, x, 1.0f);
  Value near = stablehlo::SubtractOp::create(b, one, parts.nearZero);
  Value far = stablehlo::SelectOp::create(
      b, isLess(b, x, 0.0f),
      stablehlo::SubtractOp::create(b, constantLike(b, x, 2.0f), parts.tail),
      parts.tail);
  return stablehlo::SelectOp::create(b, isLess(b, parts.magnitude, kSmall),
                                     near, far);
}

Value scalify::import::buildErfInv(ImplicitLocOpBuilder &b, Value x) {
  if (isDouble(x)) {
    Value single = stablehlo::ConvertOp::create(b, x, b.getF32Type());
    Value start =
        stablehlo::ConvertOp::create(b, buildErfInv(b, single), b.getF64Type());
    return buildDoubleErfInv(b, x, start);
  }
  // 1 - x * x would have a rounding error near +-1 as large as its value.
  Value one = constantLike(b, x, 1.0f);
  Value product =
      stablehlo::MulOp::create(b, stablehlo::SubtractOp::create(b, one, x),
                               stablehlo::AddOp::create(b, one, x));
  Value w = stablehlo::NegOp::create(b, stablehlo::LogOp::create(b, product));
  Value center =
      horner(b, kErfInvCenter,
             stablehlo::SubtractOp::create(b, w, constantLike(b, x, 2.5f)));
  Value tail =
      horner(b, kErfInvTail,
             stablehlo::SubtractOp::create(b, stablehlo::SqrtOp::create(b, w),
                                           constantLike(b, x, 3.0f)));
  Value factor =
      stablehlo::SelectOp::create(b, isLess(b, w, 5.0f), center, tail);
  Value inside = stablehlo::MulOp::create(b, x, factor);
  // At +-1 the polynomial is inf - inf.
  Value atEnd = stablehlo::CompareOp::create(
      b, stablehlo::AbsOp::create(b, x.getType(), x), one,
      stablehlo::ComparisonDirection::EQ, stablehlo::ComparisonType::FLOAT);
  Value infinite = stablehlo::MulOp::create(
      b, x, constantLike(b, x, std::numeric_limits<float>::infinity()));
  return stablehlo::SelectOp::create(b, atEnd, infinite, inside);
}
