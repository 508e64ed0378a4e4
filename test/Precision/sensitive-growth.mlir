// RUN: scalify-opt %s --scalify-decide-formats="remarks=0" | FileCheck %s --check-prefixes=CHECK,NOW
// RUN: scalify-opt %s --scalify-decide-formats="remarks=0 stays" | FileCheck %s --check-prefixes=CHECK,STAYS
// RUN: scalify-opt %s --scalify-decide-formats="remarks=0 noise-exponent=2" | FileCheck %s --check-prefix=MORE
// RUN: scalify-opt %s --scalify-decide-formats="remarks=0 noise-exponent=11" | FileCheck %s --check-prefix=MOST
// RUN: scalify-opt %s --scalify-decide-formats="remarks=0 noise-exponent=-2" | FileCheck %s --check-prefix=LESS

// The logits have a variance of 2^6 * 2^-8 * 32 = 8: operands in E4M3 leave
// 2 * 6.0e-4 of that as an error, 0.01 of the mean square of the exponential's
// gradient. At unit gain the weight's variance is 1 / 32, and that error 0.08:
// more than 0.04. BF16 has 2^-8 of the noise. If formats are chosen again along
// training, FP8 will do until then.
// CHECK-LABEL: func.func @exponential
// NOW: stablehlo.dot_general {{.*}}scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>
// STAYS: stablehlo.dot_general {{.*}}scalify.formats = #scalify.formats<bf16, bf16>, scalify.judgement = #scalify.decision<"sensitive", "{{.*}} estimated at 0.08 of their mean square once weights have grown">
// Errors measured at four times those predicted are 0.04, with 0.003 of the
// gradient's own operands, which pass no other op and count as predicted.
// MORE: stablehlo.dot_general {{.*}}scalify.formats = #scalify.formats<bf16, bf16>, scalify.judgement = #scalify.decision<"sensitive", "{{.*}} estimated at 0.04 of their mean square">
// MORE: stablehlo.dot_general {{.*}}scalify.formats = #scalify.formats<f8E4M3FN, f8E5M2>
// Where 2^6 times the errors do not explain what is measured, they count too.
// MOST: stablehlo.dot_general {{.*}}<weight_grad>{{.*}}scalify.formats = #scalify.formats<bf16, bf16>
// CHECK: stablehlo.dot_general {{.*}}scalify.formats = #scalify.formats<f8E4M3FN, f8E5M2>
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true>} {
  func.func @exponential(%x: tensor<256x32xf32> {scalify.role = #scalify.role<batch>, scalify.scale = 3 : i32},
                         %w: tensor<32x32xf32> {scalify.role = #scalify.role<param>, scalify.scale = -4 : i32})
      -> tensor<32x32xf32> {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<256x32xf32>
    %ws = scalify.scale_hint %w, %s : tensor<32x32xf32>
    %h = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
    %g = stablehlo.exponential %h {scalify.phase = #scalify.phase<backward>} : tensor<256x32xf32>
    %xs2 = scalify.scale_hint %x, %s : tensor<256x32xf32>
    %gs = scalify.scale_hint %g, %s : tensor<256x32xf32>
    %gw = stablehlo.dot_general %xs2, %gs, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<32x32xf32>
    return %gw : tensor<32x32xf32>
  }

  // Three times that variance, and an error of 0.03: within a factor of two of
  // the limit, by which the analysis may err.
  // CHECK-LABEL: func.func @near_the_limit
  // NOW: stablehlo.dot_general {{.*}}scalify.formats = #scalify.formats<bf16, bf16>, scalify.judgement = #scalify.decision<"sensitive", "{{.*}} estimated at 0.03 of their mean square">
  // Measured at a quarter, it is not.
  // LESS-LABEL: func.func @near_the_limit
  // LESS: stablehlo.dot_general {{.*}}scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>
  func.func @near_the_limit(%x: tensor<256x96xf32> {scalify.role = #scalify.role<batch>, scalify.scale = 3 : i32},
                         %w: tensor<96x32xf32> {scalify.role = #scalify.role<param>, scalify.scale = -4 : i32})
      -> tensor<96x32xf32> {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<256x96xf32>
    %ws = scalify.scale_hint %w, %s : tensor<96x32xf32>
    %h = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] : (tensor<256x96xf32>, tensor<96x32xf32>) -> tensor<256x32xf32>
    %g = stablehlo.exponential %h {scalify.phase = #scalify.phase<backward>} : tensor<256x32xf32>
    %xs2 = scalify.scale_hint %x, %s : tensor<256x96xf32>
    %gs = scalify.scale_hint %g, %s : tensor<256x32xf32>
    %gw = stablehlo.dot_general %xs2, %gs, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<256x96xf32>, tensor<256x32xf32>) -> tensor<96x32xf32>
    return %gw : tensor<96x32xf32>
  }
}
