// Compares the noise analysis of a loop with that of its iterations written
// out.
#include "NoiseProgram.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace scalify;
using scalify::test::NoiseProgram;

/// A residual stream starts 16 times smaller than what a layer adds to it, so
/// that the gain of a layer falls from iteration to iteration. A second loop
/// reads what the first saved, in reverse, and multiplies it by the stream.
static constexpr char kLoop[] = R"(
func.func @main(%x: tensor<64x64xf32> {scalify.scale = -4 : i32},
                %w: tensor<64x64xf32> {scalify.scale = -3 : i32},
                %g: tensor<64x64xf32> {scalify.scale = 0 : i32})
    -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %steep = stablehlo.constant dense<16.0> : tensor<64x64xf32>
  %stack = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<4x64x64xf32>
  %f:3 = stablehlo.while(%i = %none, %h = %x, %saved = %stack) : tensor<i32>, tensor<64x64xf32>, tensor<4x64x64xf32>
   cond {
    %p = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %a = stablehlo.multiply %h, %steep : tensor<64x64xf32>
    %t = stablehlo.tanh %a : tensor<64x64xf32>
    %d = stablehlo.dot_general %t, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %next = stablehlo.add %h, %d : tensor<64x64xf32>
    %slice = stablehlo.reshape %h : (tensor<64x64xf32>) -> tensor<1x64x64xf32>
    %all = stablehlo.dynamic_update_slice %saved, %slice, %i, %none, %none : (tensor<4x64x64xf32>, tensor<1x64x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x64x64xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next, %all : tensor<i32>, tensor<64x64xf32>, tensor<4x64x64xf32>
  }
  %b:3 = stablehlo.while(%i = %none, %h = %g, %saved = %f#2) : tensor<i32>, tensor<64x64xf32>, tensor<4x64x64xf32>
   cond {
    %p = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %at = stablehlo.subtract %three, %i : tensor<i32>
    %slice = stablehlo.dynamic_slice %saved, %at, %none, %none, sizes = [1, 64, 64] : (tensor<4x64x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x64xf32>
    %read = stablehlo.reshape %slice : (tensor<1x64x64xf32>) -> tensor<64x64xf32>
    %next = stablehlo.multiply %h, %read : tensor<64x64xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next, %saved : tensor<i32>, tensor<64x64xf32>, tensor<4x64x64xf32>
  }
  return %f#1, %b#1 : tensor<64x64xf32>, tensor<64x64xf32>
}
)";

/// Returns the same program without loops.
static std::string writeOut() {
  std::string text = R"(
func.func @main(%h0: tensor<64x64xf32> {scalify.scale = -4 : i32},
                %w: tensor<64x64xf32> {scalify.scale = -3 : i32},
                %g4: tensor<64x64xf32> {scalify.scale = 0 : i32})
    -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %steep = stablehlo.constant dense<16.0> : tensor<64x64xf32>
)";
  auto name = [](char letter, int i) {
    return std::string("%") + letter + std::to_string(i);
  };
  for (int i = 0; i < 4; ++i) {
    text += name('a', i) + " = stablehlo.multiply " + name('h', i) +
            ", %steep : tensor<64x64xf32>\n";
    text += name('t', i) + " = stablehlo.tanh " + name('a', i) +
            " : tensor<64x64xf32>\n";
    text += name('d', i) + " = stablehlo.dot_general " + name('t', i) +
            ", %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, "
            "tensor<64x64xf32>) -> tensor<64x64xf32>\n";
    text += name('h', i + 1) + " = stablehlo.add " + name('h', i) + ", " +
            name('d', i) + " : tensor<64x64xf32>\n";
  }
  for (int i = 3; i >= 0; --i)
    text += name('g', i) + " = stablehlo.multiply " + name('g', i + 1) + ", " +
            name('h', i) + " : tensor<64x64xf32>\n";
  return text + "return %h4, %g0 : tensor<64x64xf32>, tensor<64x64xf32>\n}\n";
}

/// Returns the first loop within one over three micro-batches, which sums what
/// the layers make of each.
static std::string nest() {
  std::string text = kLoop;
  auto replace = [&](StringRef from, StringRef to) {
    size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from.str();
    text.replace(at, from.size(), to);
  };
  size_t begin = text.find("  %f:3 ="), end = text.find("  %b:3 =");
  std::string layers = text.substr(begin, end - begin);
  text.replace(begin, text.find("  return %f#1") - begin, R"(
  %sum = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<64x64xf32>
  %m:2 = stablehlo.while(%k = %none, %total = %sum) : tensor<i32>, tensor<64x64xf32>
   cond {
    %p = stablehlo.compare LT, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
)" + layers + R"(
    %more = stablehlo.add %total, %f#1 : tensor<64x64xf32>
    %l = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %l, %more : tensor<i32>, tensor<64x64xf32>
  }
)");
  replace("return %f#1, %b#1", "return %m#1, %g");
  return text;
}

TEST(LoopNoise, IsThatOfTheIterationsWrittenOut) {
  NoiseProgram loop(kLoop), plain(writeOut());
  for (auto [found, expected] : llvm::zip(loop.errors, plain.errors)) {
    EXPECT_GT(expected, 0);
    // The sums are the same but for the order of their terms.
    EXPECT_NEAR(found / expected, 1, 1e-6);
  }
  // The second result is a product of slices, each with the facts of its own.
  EXPECT_NEAR(loop.sizes[0] / plain.sizes[0], 1, 1e-6);
  EXPECT_NEAR(loop.sizes[1] / plain.sizes[1], 1, 1e-6);
  // Three sums of one result, whose errors count as independent. The first adds
  // zero, a function of one value, whose gain is taken at 33 points.
  NoiseProgram nested(nest());
  EXPECT_NEAR(nested.sizes[0] / (std::sqrt(3.0) * plain.sizes[0]), 1, 1e-6);
  EXPECT_NEAR(nested.errors[0] / (3 * plain.errors[0]), 1, 1e-3);
  EXPECT_NEAR(loop.attribute({1, 1}) / (plain.errors[0] + plain.errors[1]), 1,
              1e-6);
}

/// The analysis executes the first iterations of a long loop. Slices that it
/// has not seen written have the error of the last one.
TEST(LoopNoise, ReachesSlicesBeyondTheIterationsExecuted) {
  std::string text = kLoop;
  auto replaceAll = [&](StringRef from, StringRef to) {
    for (size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  };
  replaceAll("tensor<4x64x64xf32>", "tensor<200x64x64xf32>");
  replaceAll("dense<4>", "dense<200>");
  replaceAll("dense<3>", "dense<199>");
  replaceAll("stablehlo.multiply %h, %read", "stablehlo.add %h, %read");
  NoiseProgram program(text);
  // A sum of many slices, each an earlier value of the first result.
  EXPECT_GT(program.errors[1], program.errors[0]);
}
