// Compares the noise analysis with random errors in random values.
#include "NoiseProgram.h"

#include "mlir/IR/Builders.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir;
using namespace scalify;
using scalify::test::NoiseProgram;

/// Returns the mean square of rounding errors over that of values that are
/// spread evenly over the logarithms of some binades.
static double measureRounding(FloatType format) {
  // NOLINTNEXTLINE(bugprone-random-generator-seed): the same in each run.
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-2, 2);
  double errors = 0, squares = 0;
  for (int i = 0; i < 200000; ++i) {
    double x = std::exp2(exponent(random));
    APFloat rounded(x);
    bool losesInfo;
    rounded.convert(format.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &losesInfo);
    double error = rounded.convertToDouble() - x;
    errors += error * error;
    squares += x * x;
  }
  return errors / squares;
}

TEST(Noise, OfRoundingIsThatOfTheFormat) {
  MLIRContext context;
  Builder builder(&context);
  for (FloatType format : {FloatType(Float8E4M3FNType::get(&context)),
                           FloatType(Float8E5M2Type::get(&context)),
                           builder.getF16Type(), builder.getBF16Type()})
    // The sample's own error is below 1 %.
    EXPECT_NEAR(getRoundingNoise(format) / measureRounding(format), 1, 0.02);
}

namespace {
/// The functions of the text below, for y of unit size, and g.
struct Element {
  double gate, half, kept, wave, jump;
  Element(double y, double g)
      : gate(y / (1 + std::exp(-y))), half(y > 0 ? y : 0), kept(y > 0 ? g : 0),
        wave(std::sin(3 * y) * g), jump(y > 0.5 ? y : 0) {}
};
} // namespace

static constexpr char kText[] = R"(
func.func @main(%x: tensor<64x64xf32> {scalify.scale = 0 : i32},
                %w: tensor<64x64xf32> {scalify.scale = -3 : i32},
                %g: tensor<64x64xf32> {scalify.scale = 0 : i32})
    -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
  %zeros = stablehlo.constant dense<0.0> : tensor<64x64xf32>
  %threes = stablehlo.constant dense<3.0> : tensor<64x64xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = stablehlo.logistic %y : tensor<64x64xf32>
  %gate = stablehlo.multiply %y, %s : tensor<64x64xf32>
  %half = stablehlo.maximum %y, %zeros : tensor<64x64xf32>
  %p = stablehlo.compare GT, %y, %zeros, FLOAT : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xi1>
  %kept = stablehlo.select %p, %g, %zeros : tensor<64x64xi1>, tensor<64x64xf32>
  %angle = stablehlo.multiply %y, %threes : tensor<64x64xf32>
  %sine = stablehlo.sine %angle : tensor<64x64xf32>
  %wave = stablehlo.multiply %sine, %g : tensor<64x64xf32>
  %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  %turn = stablehlo.constant dense<(0.6, 0.8)> : tensor<64x33xcomplex<f32>>
  %f = stablehlo.fft %y, type = RFFT, length = [64] : (tensor<64x64xf32>) -> tensor<64x33xcomplex<f32>>
  %turned = stablehlo.multiply %f, %turn : tensor<64x33xcomplex<f32>>
  %filtered = stablehlo.fft %turned, type = IRFFT, length = [64] : (tensor<64x33xcomplex<f32>>) -> tensor<64x64xf32>
  %halves = stablehlo.constant dense<0.5> : tensor<64x64xf32>
  %above = stablehlo.compare GT, %y, %halves, FLOAT : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xi1>
  %jump = stablehlo.select %above, %y, %zeros : tensor<64x64xi1>, tensor<64x64xf32>
  return %gate, %half, %kept, %wave, %sum, %filtered, %jump : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}
)";

TEST(Noise, OfFunctionsIsThatOfRandomErrors) {
  NoiseProgram program(kText);
  ArrayRef<double> found = program.errors;
  constexpr double kSource = NoiseProgram::kSource;

  // NOLINTNEXTLINE(bugprone-random-generator-seed): the same in each run.
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  double gate = 0, half = 0, kept = 0, wave = 0, jump = 0;
  constexpr int kSamples = 400000;
  for (int i = 0; i < kSamples; ++i) {
    double y = normal(random), g = normal(random);
    Element a(y, g), b(y + std::sqrt(kSource) * normal(random), g);
    gate += std::pow(b.gate - a.gate, 2) / kSamples;
    half += std::pow(b.half - a.half, 2) / kSamples;
    kept += std::pow(b.kept - a.kept, 2) / kSamples;
    wave += std::pow(b.wave - a.wave, 2) / kSamples;
    jump += std::pow(b.jump - a.jump, 2) / kSamples;
  }
  // The facts contribute errors of their own: 1.2 for the gate.
  EXPECT_NEAR(found[0] / gate, 1, 0.25);
  EXPECT_NEAR(found[1] / half, 1, 0.1);
  // One comparison of 100 flips, which is ten times the error itself.
  EXPECT_GT(kept, 5 * kSource);
  EXPECT_NEAR(found[2] / kept, 1, 0.1);
  EXPECT_NEAR(found[3] / wave, 1, 0.1);
  EXPECT_NEAR(found[4] / (64 * kSource), 1, 1e-6);
  // A rotation of frequencies keeps lengths, except for the two real ones of
  // 33.
  EXPECT_NEAR(found[5] / kSource, 1, 0.05);
  // A flip at the threshold changes the value by the threshold.
  EXPECT_NEAR(found[6] / jump, 1, 0.15);

  // The transposed walk finds the same error, and its source.
  EXPECT_NEAR(program.attribute({2, 0, 1, 0, 0, 0, 0}), 2 * found[0] + found[2],
              1e-9);
}

// Rows of 8 scores with what all scores of a row have in common, the index of
// the largest, and the entry that it takes from another table.
static constexpr char kChoice[] = R"(
func.func @main(%x: tensor<64x64xf32> {scalify.scale = 0 : i32},
                %w: tensor<64x8xf32> {scalify.scale = -3 : i32},
                %row: tensor<64xf32> {scalify.scale = 3 : i32},
                %table: tensor<8x16xf32> {scalify.scale = 0 : i32})
    -> (tensor<64x16xf32>, tensor<64x8xi1>, tensor<64xf32>, tensor<64x8xf32>) {
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
  %rows = stablehlo.broadcast_in_dim %row, dims = [0] : (tensor<64xf32>) -> tensor<64x8xf32>
  %scores = stablehlo.subtract %rows, %y : tensor<64x8xf32>
  %places = stablehlo.iota dim = 1 : tensor<64x8xi32>
  %best:2 = stablehlo.reduce(%scores init: %lowest), (%places init: %first) across dimensions = [1] : (tensor<64x8xf32>, tensor<64x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<64xf32>, tensor<64xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
    %above = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %c = stablehlo.select %above, %a, %b : tensor<i1>, tensor<f32>
    %k = stablehlo.select %above, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %c, %k : tensor<f32>, tensor<i32>
  }
  %at = stablehlo.reshape %best#1 : (tensor<64xi32>) -> tensor<64x1xi32>
  %entry = "stablehlo.gather"(%table, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<8x16xf32>, tensor<64x1xi32>) -> tensor<64x16xf32>
  %chosen = stablehlo.broadcast_in_dim %best#1, dims = [0] : (tensor<64xi32>) -> tensor<64x8xi32>
  %mask = stablehlo.compare EQ, %chosen, %places, SIGNED : (tensor<64x8xi32>, tensor<64x8xi32>) -> tensor<64x8xi1>
  %lane = stablehlo.iota dim = 0 : tensor<64x1xi32>
  %pair = stablehlo.concatenate %lane, %at, dim = 1 : (tensor<64x1xi32>, tensor<64x1xi32>) -> tensor<64x2xi32>
  %own = "stablehlo.gather"(%scores, %pair) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<64x8xf32>, tensor<64x2xi32>) -> tensor<64xf32>
  return %entry, %mask, %own, %scores : tensor<64x16xf32>, tensor<64x8xi1>, tensor<64xf32>, tensor<64x8xf32>
}
)";

TEST(Noise, OfChoicesIsThatOfRandomErrors) {
  NoiseProgram program(kChoice);
  ArrayRef<double> found = program.errors;
  constexpr double kSource = NoiseProgram::kSource;

  // NOLINTNEXTLINE(bugprone-random-generator-seed): the same in each run.
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  constexpr int kSamples = 200000;
  double wrong = 0;
  for (int i = 0; i < kSamples; ++i) {
    std::array<double, 8> exact, rounded;
    for (auto [y, z] : llvm::zip(exact, rounded)) {
      y = normal(random);
      z = y + std::sqrt(kSource) * normal(random);
    }
    wrong += llvm::max_element(exact) - exact.begin() !=
             llvm::max_element(rounded) - rounded.begin();
  }
  wrong /= kSamples;
  // 2 % of the choices, and a sample's error of 2 % of these. Another entry of
  // unit size differs by twice its variance, and a wrong one-hot of 8 in 2.
  EXPECT_NEAR(found[0] / (2 * wrong), 1, 0.1);
  EXPECT_NEAR(found[1] / (2 * wrong / 8), 1, 0.1);
  // The largest score itself moves by the error of scores alone.
  EXPECT_GT(found[3], 0);
  EXPECT_EQ(found[2], found[3]);
}
