//===- Numeric.cpp - Rules of norms, random numbers and linear algebra ----===//

#include "scalify/Scaling/Rules.h"

#include "Moments.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

using Results = MutableArrayRef<ScaleFacts>;

//===----------------------------------------------------------------------===//
// Batch norms
//===----------------------------------------------------------------------===//

/// Returns the number of elements that one feature's statistics are taken over.
static double countPerFeature(Operation *op) {
  return countElements(op->getOperand(0)) /
         std::max(1.0, countElements(op->getOperand(1)));
}

/// Normalised data, times the scale, plus the offset.
static ScaleFacts normalised(const ScaleFacts &scale,
                             const ScaleFacts &offset) {
  ScaleFacts facts = ScaleFacts::moments(offset.mean, scale.rms * scale.rms +
                                                          offset.variance());
  facts.rule = "batch norm: unit data times scale, plus offset";
  return facts;
}

static void batchNormTrainingFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &x = query.operand(0);
  double n = std::max(1.0, countPerFeature(query.op));
  out[0] = normalised(query.operand(1), query.operand(2));
  out[1] = ScaleFacts::moments(x.mean, x.variance() / n);
  out[1].rule = "batch norm: mean";
  out[2] =
      ScaleFacts::moments(x.variance(), 2 * x.variance() * x.variance() / n);
  out[2].sign = Sign::NonNegative;
  out[2].rule = "batch norm: variance";
}

static void batchNormInferenceFacts(const FactsQuery &query, Results out) {
  out[0] = normalised(query.operand(1), query.operand(2));
}

static void batchNormGradFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &scale = query.operand(1), &variance = query.operand(3);
  const ScaleFacts &gradient = query.operand(4);
  double n = std::max(1.0, countPerFeature(query.op));
  double inverse = 1 / std::sqrt(std::max(variance.rms, 1e-30));
  out[0] = ScaleFacts::gaussian(scale.rms * inverse * gradient.rms);
  out[1] = ScaleFacts::gaussian(std::sqrt(n) * gradient.rms);
  out[2] = sumOf(gradient, TermCount::of(n));
  for (ScaleFacts &result : out)
    result.rule = "gradient of batch norm";
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

static void rngFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  auto distribution = cast<stablehlo::RngOp>(query.op).getRngDistribution();
  if (distribution == stablehlo::RngDistribution::NORMAL) {
    out[0] = ScaleFacts::moments(a.mean, b.rms * b.rms);
  } else {
    double width = b.mean - a.mean;
    out[0] = ScaleFacts::moments(0.5 * (a.mean + b.mean), width * width / 12);
    out[0].bound = std::max(a.bound, b.bound);
    if (a.constant && *a.constant >= 0)
      out[0].sign = Sign::NonNegative;
  }
  out[0].rule = "rng";
}

static void randomBitsFacts(const FactsQuery &, Results out) {
  for (ScaleFacts &result : out)
    result.rule = "random bits";
}

//===----------------------------------------------------------------------===//
// Complex numbers: moments are those of the magnitude
//===----------------------------------------------------------------------===//

static void complexFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &re = query.operand(0), &im = query.operand(1);
  out[0] = ScaleFacts::gaussian(std::hypot(re.rms, im.rms));
  out[0].bound = std::hypot(re.bound, im.bound);
  out[0].rule = "complex";
}

static void partFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &z = query.operand(0);
  out[0] = ScaleFacts::gaussian(z.rms / std::sqrt(2.0));
  out[0].bound = z.bound;
  out[0].rule = shortName(query.op) + ": half of the magnitude's square";
}

static void fftFacts(const FactsQuery &query, Results out) {
  auto fft = cast<stablehlo::FftOp>(query.op);
  double n = 1;
  for (int64_t length : fft.getFftLength())
    n *= static_cast<double>(length);
  bool isInverse = fft.getFftType() == stablehlo::FftType::IFFT ||
                   fft.getFftType() == stablehlo::FftType::IRFFT;
  double factor = isInverse ? 1 / std::sqrt(n) : std::sqrt(n);
  out[0] = ScaleFacts::gaussian(query.operand(0).rms * factor);
  out[0].rule = "fft: square root of the length";
}

//===----------------------------------------------------------------------===//
// Linear algebra
//===----------------------------------------------------------------------===//

static void choleskyFacts(const FactsQuery &query, Results out) {
  out[0] = ScaleFacts::gaussian(std::sqrt(query.operand(0).rms));
  out[0].bound = std::sqrt(query.operand(0).bound);
  out[0].rule = "cholesky: square root";
}

static void triangularSolveFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &a = query.operand(0), &b = query.operand(1);
  bool unit = cast<stablehlo::TriangularSolveOp>(query.op).getUnitDiagonal();
  out[0] = ScaleFacts::gaussian(unit ? b.rms : b.rms / std::max(a.rms, 1e-30));
  out[0].rule = "triangular_solve: quotient";
}

//===----------------------------------------------------------------------===//
// Quantized types
//===----------------------------------------------------------------------===//

static void uniformDequantizeFacts(const FactsQuery &, Results out) {
  out[0].rule = "uniform_dequantize: its type holds the scale";
}

void scalify::attachNumericRules(MLIRContext *context) {
  using namespace stablehlo;
  attachRule<ScaleFamily::True, batchNormTrainingFacts, BatchNormTrainingOp>(
      context);
  attachRule<ScaleFamily::True, batchNormInferenceFacts, BatchNormInferenceOp>(
      context);
  attachRule<ScaleFamily::True, batchNormGradFacts, BatchNormGradOp>(context);
  attachRule<ScaleFamily::True, rngFacts, RngOp>(context);
  attachRule<ScaleFamily::Untouched, randomBitsFacts, RngBitGeneratorOp>(
      context);
  attachRule<ScaleFamily::True, complexFacts, ComplexOp>(context);
  attachRule<ScaleFamily::True, partFacts, RealOp, ImagOp>(context);
  attachRule<ScaleFamily::True, fftFacts, FftOp>(context);
  attachRule<ScaleFamily::True, choleskyFacts, CholeskyOp>(context);
  attachRule<ScaleFamily::True, triangularSolveFacts, TriangularSolveOp>(
      context);
  attachRule<ScaleFamily::True, uniformDequantizeFacts, UniformQuantizeOp,
             UniformDequantizeOp>(context);
}
