// Kernels of a GPU, run by a simulated grid of host threads, compared with the
// CPU's: the same bits unless several threads contribute to a sum, sums within
// their rounding.
#include "SimulatedGrid.h"

#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>

using namespace llvm;
using namespace scalify;

TEST(Grid, OfElements) {
  // A size that no vector divides, and two formats.
  checkProgram(R"(
func.func @main(%x: tensor<37x131xf32>, %y: tensor<37x131xbf16>) -> (tensor<37x131xf32>, tensor<37x131xbf16>) {
  %a = stablehlo.logistic %x : tensor<37x131xf32>
  %b = stablehlo.multiply %x, %a : tensor<37x131xf32>
  %c = stablehlo.convert %y : (tensor<37x131xbf16>) -> tensor<37x131xf32>
  %d = stablehlo.add %b, %c : tensor<37x131xf32>
  %e = stablehlo.convert %d : (tensor<37x131xf32>) -> tensor<37x131xbf16>
  return %d, %e : tensor<37x131xf32>, tensor<37x131xbf16>
})");
}

TEST(Grid, OfRowsWithSums) {
  checkProgram(R"(
func.func @main(%x: tensor<9x83xf32>) -> (tensor<9x83xf32>, tensor<9xf32>, tensor<83xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %m = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [1] : (tensor<9x83xf32>, tensor<f32>) -> tensor<9xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<9xf32>) -> tensor<9x83xf32>
  %d = stablehlo.subtract %x, %mb : tensor<9x83xf32>
  %e = stablehlo.exponential %d : tensor<9x83xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<9x83xf32>, tensor<f32>) -> tensor<9xf32>
  %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<9xf32>) -> tensor<9x83xf32>
  %p = stablehlo.divide %e, %sb : tensor<9x83xf32>
  %l = stablehlo.log %s : tensor<9xf32>
  %c = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<9x83xf32>, tensor<f32>) -> tensor<83xf32>
  %t = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<9x83xf32>, tensor<f32>) -> tensor<f32>
  return %p, %l, %c, %t : tensor<9x83xf32>, tensor<9xf32>, tensor<83xf32>, tensor<f32>
})");
}

TEST(Grid, OfWhatRanksGave) {
  // Bit for bit: a piece of many elements, of one, and of a number that no
  // vector divides; rounded once after the sum.
  checkProgram(R"(
func.func @main(%x: tensor<8x256xf32>, %y: tensor<8x1xf32>, %z: tensor<33x7xbf16>) -> (tensor<256xf32>, tensor<1xf32>, tensor<7xbf16>) {
  %start = stablehlo.constant dense<-0.0> : tensor<f32>
  %a = stablehlo.reduce(%x init: %start) applies stablehlo.add across dimensions = [0] {scalify.in_order} : (tensor<8x256xf32>, tensor<f32>) -> tensor<256xf32>
  %b = stablehlo.reduce(%y init: %start) applies stablehlo.add across dimensions = [0] {scalify.in_order} : (tensor<8x1xf32>, tensor<f32>) -> tensor<1xf32>
  %w = stablehlo.convert %z : (tensor<33x7xbf16>) -> tensor<33x7xf32>
  %c = stablehlo.reduce(%w init: %start) applies stablehlo.add across dimensions = [0] {scalify.in_order} : (tensor<33x7xf32>, tensor<f32>) -> tensor<7xf32>
  %d = stablehlo.convert %c {scalify.in_order} : (tensor<7xf32>) -> tensor<7xbf16>
  return %a, %b, %d : tensor<256xf32>, tensor<1xf32>, tensor<7xbf16>
})");
}

TEST(Grid, OfCastsThatCount) {
  // The first scale saturates, the second flushes. The third cast has one
  // element per row, which all threads of a block compute and one counts.
  checkProgram(R"(
plan.program @step {
  %x = plan.argument 0 : memref<6x96xf32>
  %a = plan.result 0 : memref<6x96xf8E4M3FN>
  %b = plan.result 1 : memref<6x96xf8E5M2>
  %c = plan.result 2 : memref<6xf8E4M3FN>
  plan.kernel "casts" reads(%x : memref<6x96xf32>) writes(%a, %b, %c : memref<6x96xf8E4M3FN>, memref<6x96xf8E5M2>, memref<6xf8E4M3FN>) {
  ^bb0(%v: tensor<6x96xf32>):
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %small = stablehlo.constant dense<0.001953125> : tensor<f32>
    %large = stablehlo.constant dense<262144.0> : tensor<f32>
    %q = scalify.quantize %v, %small {cast = "c0"} : tensor<6x96xf32> -> tensor<6x96xf8E4M3FN>
    %s = stablehlo.reduce(%v init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<6x96xf32>, tensor<f32>) -> tensor<6xf32>
    %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<6xf32>) -> tensor<6x96xf32>
    %p = stablehlo.multiply %v, %sb : tensor<6x96xf32>
    %r = scalify.quantize %p, %large {cast = "c1"} : tensor<6x96xf32> -> tensor<6x96xf8E5M2>
    %t = scalify.quantize %s, %small {cast = "c2"} : tensor<6xf32> -> tensor<6xf8E4M3FN>
    plan.yield %q, %r, %t : tensor<6x96xf8E4M3FN>, tensor<6x96xf8E5M2>, tensor<6xf8E4M3FN>
  }
})",
               /*isPlan=*/true);
}

TEST(Grid, OfCastsWithTheirStatistics) {
  // Rows of several loops, split where a concatenation changes, of whole
  // vectors and of other sizes. Reductions are fused with the stores, and a
  // cast counts once. In the second kernel an output needs a reduction.
  for (int64_t half : {16, 12})
    checkProgram(formatv(R"(
plan.program @step {{
  %x = plan.argument 0 : memref<5x3x{0}xbf16>
  %a = plan.result 0 : memref<5x3x{0}xf8E4M3FN>
  %b = plan.result 1 : memref<5xf32>
  %c = plan.result 2 : memref<5xf32>
  %d = plan.result 3 : memref<5x3x{0}xbf16>
  %e = plan.result 4 : memref<5xf32>
  plan.kernel "statistics" reads(%x : memref<5x3x{0}xbf16>) writes(%a, %b, %c : memref<5x3x{0}xf8E4M3FN>, memref<5xf32>, memref<5xf32>) {{
  ^bb0(%v: tensor<5x3x{0}xbf16>):
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %small = stablehlo.constant dense<0.001953125> : tensor<f32>
    %h = stablehlo.slice %v [0:5, 0:3, {1}:{0}] : (tensor<5x3x{0}xbf16>) -> tensor<5x3x{1}xbf16>
    %l = stablehlo.slice %v [0:5, 0:3, 0:{1}] : (tensor<5x3x{0}xbf16>) -> tensor<5x3x{1}xbf16>
    %n = stablehlo.negate %h : tensor<5x3x{1}xbf16>
    %t = stablehlo.concatenate %n, %l, dim = 2 : (tensor<5x3x{1}xbf16>, tensor<5x3x{1}xbf16>) -> tensor<5x3x{0}xbf16>
    %w = stablehlo.convert %t : (tensor<5x3x{0}xbf16>) -> tensor<5x3x{0}xf32>
    %q = scalify.quantize %w, %small {{cast = "c0"} : tensor<5x3x{0}xf32> -> tensor<5x3x{0}xf8E4M3FN>
    %abs = stablehlo.abs %w : tensor<5x3x{0}xf32>
    %r = stablehlo.reshape %abs : (tensor<5x3x{0}xf32>) -> tensor<5x{2}xf32>
    %m = stablehlo.reduce(%r init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<5x{2}xf32>, tensor<f32>) -> tensor<5xf32>
    %s = stablehlo.reduce(%r init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<5x{2}xf32>, tensor<f32>) -> tensor<5xf32>
    %root = stablehlo.sqrt %s : tensor<5xf32>
    plan.yield %q, %m, %root : tensor<5x3x{0}xf8E4M3FN>, tensor<5xf32>, tensor<5xf32>
  }
  plan.kernel "scaled" reads(%x : memref<5x3x{0}xbf16>) writes(%d, %e : memref<5x3x{0}xbf16>, memref<5xf32>) {{
  ^bb0(%v: tensor<5x3x{0}xbf16>):
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %w = stablehlo.convert %v : (tensor<5x3x{0}xbf16>) -> tensor<5x3x{0}xf32>
    %abs = stablehlo.abs %w : tensor<5x3x{0}xf32>
    %r = stablehlo.reshape %abs : (tensor<5x3x{0}xf32>) -> tensor<5x{2}xf32>
    %m = stablehlo.reduce(%r init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<5x{2}xf32>, tensor<f32>) -> tensor<5xf32>
    %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<5xf32>) -> tensor<5x3x{0}xf32>
    %p = stablehlo.multiply %w, %mb : tensor<5x3x{0}xf32>
    %y = stablehlo.convert %p : (tensor<5x3x{0}xf32>) -> tensor<5x3x{0}xbf16>
    plan.yield %y, %m : tensor<5x3x{0}xbf16>, tensor<5xf32>
  }
})",
                         2 * half, half, 6 * half)
                     .str(),
                 /*isPlan=*/true);
}

TEST(Grid, OfPaddedCasts) {
  // Padding is no value: nothing is counted there, and no element twice. Rows
  // of whole and of partial vectors; in order and transposed.
  for (StringRef width : {"100", "96", "83"}) {
    std::string text = formatv(R"(
plan.program @step {{
  %x = plan.argument 0 : memref<6x{0}xf32>
  %a = plan.result 0 : memref<6x112xf8E4M3FN>
  %b = plan.result 1 : memref<{0}x16xf8E4M3FN>
  plan.kernel "turned" reads(%x : memref<6x{0}xf32>) writes(%b : memref<{0}x16xf8E4M3FN>) {{
  ^bb0(%v: tensor<6x{0}xf32>):
    %small = stablehlo.constant dense<0.001953125> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f8E4M3FN>
    %q = scalify.quantize %v, %small {{cast = "c1"} : tensor<6x{0}xf32> -> tensor<6x{0}xf8E4M3FN>
    %t = stablehlo.transpose %q, dims = [1, 0] : (tensor<6x{0}xf8E4M3FN>) -> tensor<{0}x6xf8E4M3FN>
    %p = stablehlo.pad %t, %zero, low = [0, 0], high = [0, 10], interior = [0, 0] : (tensor<{0}x6xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<{0}x16xf8E4M3FN>
    plan.yield %p : tensor<{0}x16xf8E4M3FN>
  }
  plan.kernel "casts" reads(%x : memref<6x{0}xf32>) writes(%a : memref<6x112xf8E4M3FN>) {{
  ^bb0(%v: tensor<6x{0}xf32>):
    %small = stablehlo.constant dense<0.001953125> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f8E4M3FN>
    %q = scalify.quantize %v, %small {{cast = "c0"} : tensor<6x{0}xf32> -> tensor<6x{0}xf8E4M3FN>
    %p = stablehlo.pad %q, %zero, low = [0, 0], high = [0, {1}], interior = [0, 0] : (tensor<6x{0}xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<6x112xf8E4M3FN>
    plan.yield %p : tensor<6x112xf8E4M3FN>
  }
})",
                               width, 112 - std::stoi(width.str()));
    checkProgram(text, /*isPlan=*/true);
  }
}

TEST(Grid, OfCastsOfEveryKindOfValue) {
  // Every BF16 word, hence ties, subnormals, infinities and NaN; then words of
  // F32 between these.
  for (StringRef word : {"shift_left", "multiply"}) {
    std::string text = R"(
plan.program @step {
  %k = plan.argument 0 : memref<1xf32>
  %a = plan.result 0 : memref<65536xf8E4M3FN>
  %b = plan.result 1 : memref<65536xf8E5M2>
  %c = plan.result 2 : memref<65536xf8E4M3FN>
  %d = plan.result 3 : memref<65536xf8E5M2>
  %e = plan.result 4 : memref<65536xbf16>
  %f = plan.result 5 : memref<65536xf16>
  %g = plan.result 6 : memref<65536xbf16>
  %h = plan.result 7 : memref<65536xf32>
  plan.kernel "casts" reads(%k : memref<1xf32>) writes(%a, %b, %c, %d, %e, %f, %g, %h : memref<65536xf8E4M3FN>, memref<65536xf8E5M2>, memref<65536xf8E4M3FN>, memref<65536xf8E5M2>, memref<65536xbf16>, memref<65536xf16>, memref<65536xbf16>, memref<65536xf32>) {
  ^bb0(%unused: tensor<1xf32>):
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %i = stablehlo.iota dim = 0 : tensor<65536xi32>
    %n = stablehlo.constant dense<NUMBER> : tensor<65536xi32>
    %w = stablehlo.WORD %i, %n : tensor<65536xi32>
    %v = stablehlo.bitcast_convert %w : (tensor<65536xi32>) -> tensor<65536xf32>
    %p = scalify.quantize %v, %one {cast = "c0"} : tensor<65536xf32> -> tensor<65536xf8E4M3FN>
    %q = scalify.quantize %v, %one {cast = "c1"} : tensor<65536xf32> -> tensor<65536xf8E5M2>
    %r = stablehlo.convert %v : (tensor<65536xf32>) -> tensor<65536xf8E4M3FN>
    %s = stablehlo.convert %v : (tensor<65536xf32>) -> tensor<65536xf8E5M2>
    %t = stablehlo.convert %v : (tensor<65536xf32>) -> tensor<65536xbf16>
    %u = scalify.quantize %v, %one {cast = "c2"} : tensor<65536xf32> -> tensor<65536xf16>
    %x = scalify.quantize %v, %one {cast = "c3"} : tensor<65536xf32> -> tensor<65536xbf16>
    %y = scalify.dequantize %p, %one : tensor<65536xf8E4M3FN> -> tensor<65536xf32>
    %z = stablehlo.convert %s : (tensor<65536xf8E5M2>) -> tensor<65536xf32>
    %yz = stablehlo.add %y, %z : tensor<65536xf32>
    plan.yield %p, %q, %r, %s, %t, %u, %x, %yz : tensor<65536xf8E4M3FN>, tensor<65536xf8E5M2>, tensor<65536xf8E4M3FN>, tensor<65536xf8E5M2>, tensor<65536xbf16>, tensor<65536xf16>, tensor<65536xbf16>, tensor<65536xf32>
  }
})";
    text.replace(text.find("NUMBER"), 6, word == "multiply" ? "65521" : "16");
    text.replace(text.find("WORD"), 4, word.str());
    checkProgram(text, /*isPlan=*/true);
  }
}

TEST(Grid, OfMovesAndPlaces) {
  checkProgram(R"(
func.func @main(%x: tensor<8x48xf32>, %i: tensor<5x1xi32>, %u: tensor<5x48xf32>) -> (tensor<48x8xf32>, tensor<8x96xf32>, tensor<5x48xf32>, tensor<8x48xf32>) {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x48xf32>) -> tensor<48x8xf32>
  %n = stablehlo.negate %x : tensor<8x48xf32>
  %c = stablehlo.concatenate %n, %x, dim = 1 : (tensor<8x48xf32>, tensor<8x48xf32>) -> tensor<8x96xf32>
  %g = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 48>}> : (tensor<8x48xf32>, tensor<5x1xi32>) -> tensor<5x48xf32>
  %s = "stablehlo.scatter"(%x, %i, %u) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %r = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<8x48xf32>, tensor<5x1xi32>, tensor<5x48xf32>) -> tensor<8x48xf32>
  return %t, %c, %g, %s : tensor<48x8xf32>, tensor<8x96xf32>, tensor<5x48xf32>, tensor<8x48xf32>
})");
}

TEST(Grid, OfUpdatesOfTheSamePlaces) {
  // 40 updates of 6 rows and of 9 elements: each place has several updates, and
  // their order shows in the bits, since x/2 + u does not commute.
  checkProgram(R"(
func.func @main(%x: tensor<6x83xf32>, %y: tensor<3x3xf32>, %n: tensor<40x83xf32>, %v: tensor<40xf32>) -> (tensor<6x83xf32>, tensor<3x3xf32>) {
  %five = stablehlo.constant dense<5> : tensor<40x1xi32>
  %three = stablehlo.constant dense<3> : tensor<40x2xi32>
  %k = stablehlo.iota dim = 0 : tensor<40x1xi32>
  %kk = stablehlo.multiply %k, %k : tensor<40x1xi32>
  %i = stablehlo.remainder %kk, %five : tensor<40x1xi32>
  %l = stablehlo.iota dim = 0 : tensor<40x2xi32>
  %m = stablehlo.iota dim = 1 : tensor<40x2xi32>
  %a = stablehlo.multiply %l, %l : tensor<40x2xi32>
  %b = stablehlo.add %a, %m : tensor<40x2xi32>
  %j = stablehlo.remainder %b, %three : tensor<40x2xi32>
  %s = "stablehlo.scatter"(%x, %i, %n) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %half = stablehlo.constant dense<0.5> : tensor<f32>
    %h = stablehlo.multiply %p, %half : tensor<f32>
    %r = stablehlo.add %h, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<6x83xf32>, tensor<40x1xi32>, tensor<40x83xf32>) -> tensor<6x83xf32>
  %t = "stablehlo.scatter"(%y, %j, %v) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = false}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %half = stablehlo.constant dense<0.5> : tensor<f32>
    %h = stablehlo.multiply %p, %half : tensor<f32>
    %r = stablehlo.add %h, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<3x3xf32>, tensor<40x2xi32>, tensor<40xf32>) -> tensor<3x3xf32>
  return %s, %t : tensor<6x83xf32>, tensor<3x3xf32>
})");
}

TEST(Grid, OfTransposesByTiles) {
  // Partial and whole tiles, of one and of several matrices, of every element
  // width.
  for (StringRef type : {"f32", "bf16", "f8E4M3FN", "i1"}) {
    for (StringRef shapes :
         {"70x100|1, 0|100x70", "64x128|1, 0|128x64", "37x129|1, 0|129x37",
          "3x40x66|0, 2, 1|3x66x40", "2x33x3x16|0, 2, 3, 1|2x3x16x33",
          "17x3x32|2, 1, 0|32x3x17"}) {
      auto [from, rest] = shapes.split('|');
      auto [order, to] = rest.split('|');
      std::string x = llvm::formatv("tensor<{0}x{1}>", from, type);
      std::string y = llvm::formatv("tensor<{0}x{1}>", to, type);
      checkProgram(llvm::formatv("func.func @main(%x: {0}) -> {1} {{\n"
                                 "%t = stablehlo.transpose %x, dims = [{2}]"
                                 " : ({0}) -> {1}\n return %t : {1}\n}",
                                 x, y, order)
                       .str());
    }
  }
}

TEST(Grid, OfCastsWithTheirTransposes) {
  // The codes are stored in both orders, and counted once.
  checkProgram(R"(
plan.program @step {
  %x = plan.argument 0 : memref<2x75x144xf32>
  %s = plan.argument 1 : memref<f32>
  %a = plan.result 0 : memref<2x75x144xf8E4M3FN>
  %b = plan.result 1 : memref<2x144x75xf8E4M3FN>
  plan.kernel "casts" reads(%x, %s : memref<2x75x144xf32>, memref<f32>) writes(%a, %b : memref<2x75x144xf8E4M3FN>, memref<2x144x75xf8E4M3FN>) {
  ^bb0(%v: tensor<2x75x144xf32>, %w: tensor<f32>):
    %small = stablehlo.constant dense<0.001953125> : tensor<f32>
    %scale = stablehlo.multiply %w, %small : tensor<f32>
    %q = scalify.quantize %v, %scale {cast = "c0"} : tensor<2x75x144xf32> -> tensor<2x75x144xf8E4M3FN>
    %t = stablehlo.transpose %q, dims = [0, 2, 1] : (tensor<2x75x144xf8E4M3FN>) -> tensor<2x144x75xf8E4M3FN>
    plan.yield %q, %t : tensor<2x75x144xf8E4M3FN>, tensor<2x144x75xf8E4M3FN>
  }
})",
               /*isPlan=*/true, /*timesCounted=*/2);
}

TEST(Grid, OfWhatMeetsATranspose) {
  // After the transpose another input is read in the other order, and cast.
  checkProgram(R"(
plan.program @step {
  %x = plan.argument 0 : memref<2x75x144xf32>
  %y = plan.argument 1 : memref<288x75xbf16>
  %a = plan.result 0 : memref<2x75x144xf32>
  %b = plan.result 1 : memref<2x144x75xbf16>
  %c = plan.result 2 : memref<2x144x75xf8E5M2>
  plan.kernel "sums" reads(%x, %y : memref<2x75x144xf32>, memref<288x75xbf16>) writes(%a, %b, %c : memref<2x75x144xf32>, memref<2x144x75xbf16>, memref<2x144x75xf8E5M2>) {
  ^bb0(%v: tensor<2x75x144xf32>, %w: tensor<288x75xbf16>):
    %large = stablehlo.constant dense<32768.0> : tensor<f32>
    %n = stablehlo.negate %v : tensor<2x75x144xf32>
    %h = stablehlo.convert %v : (tensor<2x75x144xf32>) -> tensor<2x75x144xbf16>
    %u = stablehlo.transpose %h, dims = [0, 2, 1] : (tensor<2x75x144xbf16>) -> tensor<2x144x75xbf16>
    %m = stablehlo.transpose %n, dims = [0, 2, 1] : (tensor<2x75x144xf32>) -> tensor<2x144x75xf32>
    %r = stablehlo.reshape %w : (tensor<288x75xbf16>) -> tensor<2x144x75xbf16>
    %z = stablehlo.add %r, %u : tensor<2x144x75xbf16>
    %f = stablehlo.convert %z : (tensor<2x144x75xbf16>) -> tensor<2x144x75xf32>
    %g = stablehlo.multiply %f, %m : tensor<2x144x75xf32>
    %e = scalify.quantize %g, %large {cast = "c1"} : tensor<2x144x75xf32> -> tensor<2x144x75xf8E5M2>
    plan.yield %n, %z, %e : tensor<2x75x144xf32>, tensor<2x144x75xbf16>, tensor<2x144x75xf8E5M2>
  }
})",
               /*isPlan=*/true);
}

TEST(Grid, OfAnUpdateInPlace) {
  checkProgram(R"(
func.func @main(%w: tensor<64x301xf32> {tf.aliasing_output = 0 : i32}, %m: tensor<64x301xf32> {tf.aliasing_output = 1 : i32}, %g: tensor<64x301xf32>) -> (tensor<64x301xf32>, tensor<64x301xf32>) {
  %b = stablehlo.constant dense<0.9> : tensor<64x301xf32>
  %r = stablehlo.constant dense<0.01> : tensor<64x301xf32>
  %mb = stablehlo.multiply %m, %b : tensor<64x301xf32>
  %m1 = stablehlo.add %mb, %g : tensor<64x301xf32>
  %u = stablehlo.multiply %m1, %r : tensor<64x301xf32>
  %w1 = stablehlo.subtract %w, %u : tensor<64x301xf32>
  return %w1, %m1 : tensor<64x301xf32>, tensor<64x301xf32>
})");
}
