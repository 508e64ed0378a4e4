// RUN: scalify-opt %s --scalify-place-rescales="places=residual_grad budget=1" | FileCheck %s
// RUN: scalify-opt %s --scalify-place-rescales="places=residual statistic=max budget=1" | FileCheck %s --check-prefix=FORWARD
// RUN: scalify-opt %s --scalify-place-rescales="places=residual_grad budget=1" -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: scalify-opt %s --scalify-place-rescales="places=residual_grad budget=1 drift=1" | FileCheck %s --check-prefix=DRIFT
// RUN: scalify-opt %s --scalify-place-rescales="places=residual_grad budget=0.05" | FileCheck %s --check-prefix=SAMPLE
// RUN: scalify-opt %s --scalify-place-rescales="places=grad:layer.*/mlp budget=1" | FileCheck %s --check-prefix=NAMES
// RUN: scalify-opt %s --scalify-place-rescales | FileCheck %s --check-prefix=NOTHING
// RUN: not scalify-opt %s --scalify-place-rescales="places=( budget=1" 2>&1 | FileCheck %s --check-prefix=PATTERN
// RUN: not scalify-opt %s --scalify-place-rescales="places=residual statistic=rms" 2>&1 | FileCheck %s --check-prefix=STATISTIC
// RUN: scalify-opt %s --scalify-place-rescales="places=residual_grad,layr0,grad:layer0 budget=1" -o /dev/null 2>&1 | FileCheck %s --check-prefix=UNMET
// RUN: not scalify-opt %s --scalify-place-rescales="places=residual_grad,layr0 budget=1 strict" -o /dev/null 2>&1 | FileCheck %s --check-prefix=STRICT

// A place with a slip in it is named, with the places that there are.
// UNMET-NOT: has the place 'residual_grad'
// UNMET: remark: 'rescale' has the place 'layr0', which matches no value: ops of this program are at places such as transpose(jvp(layer0))/mlp/add, {{.*}}transpose(jvp(layer0))/norm/tanh
// UNMET-NOT: has the place
// STRICT: error: 'rescale' has the place 'layr0', which matches no value

// PATTERN: error: cannot place rescales at '('
// STATISTIC: error: unknown statistic 'rms': expected one of max, l1, l2
// NOTHING-NOT: rescale_point

// A block x + f(x) and its gradient. The sum of the two gradients of f's input
// is no join: neither leads to the other. The last sum is: g is a term of it
// and leads to the other one through products.
// CHECK-LABEL: func.func @main
// CHECK: %[[SUM:.*]] = stablehlo.add %{{.*}}, %{{.*}} {name = "branches"
// CHECK-NOT: rescale_point
// CHECK: %[[INNER:.*]] = stablehlo.add %arg3, %{{.*}} {name = "inner"
// CHECK-NOT: rescale_point
// CHECK: %[[JOIN:.*]] = stablehlo.add %[[INNER]], %{{.*}} {name = "join"
// CHECK-NEXT: %[[POINT:.*]] = scalify.rescale_point {{ *}}l2 %[[JOIN]] {by = "residual_grad", scalify.phase = #scalify.phase<backward>} : tensor<2x512x16xf32>
// CHECK: return %{{.*}}, %[[POINT]]
// FORWARD: %[[OUT:.*]] = stablehlo.add %arg0, %{{.*}} {name = "out"
// FORWARD-NEXT: scalify.rescale_point {{ *}}max %[[OUT]]
// FORWARD-NOT: rescale_point
// DRIFT-NOT: rescale_point
// SAMPLE: name = "join"
// SAMPLE-NEXT: scalify.rescale_point {{.*}}sample = 8 : i64
// NAMES: name = "branches"
// NAMES-NEXT: scalify.rescale_point {{.*}}by = "grad:layer.*/mlp"
// NAMES-NOT: rescale_point
func.func @main(%x: tensor<2x512x16xf32>, %w: tensor<16x16xf32>, %v: tensor<16x16xf32>, %g: tensor<2x512x16xf32>)
    -> (tensor<2x512x16xf32>, tensor<2x512x16xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<2x512x16xf32>, tensor<16x16xf32>) -> tensor<2x512x16xf32>
  %1 = stablehlo.dot_general %x, %v, contracting_dims = [2] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<2x512x16xf32>, tensor<16x16xf32>) -> tensor<2x512x16xf32>
  %2 = stablehlo.multiply %0, %1 {scalify.phase = #scalify.phase<forward>} : tensor<2x512x16xf32>
  %3 = stablehlo.add %x, %2 {name = "out", scalify.phase = #scalify.phase<forward>} : tensor<2x512x16xf32>
  %4 = stablehlo.multiply %g, %0 {scalify.phase = #scalify.phase<backward>} : tensor<2x512x16xf32> loc("transpose(jvp(layer0))/mlp/mul")
  %5 = stablehlo.multiply %g, %1 {scalify.phase = #scalify.phase<backward>} : tensor<2x512x16xf32> loc("transpose(jvp(layer0))/mlp/mul")
  %6 = stablehlo.dot_general %4, %v, contracting_dims = [2] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<2x512x16xf32>, tensor<16x16xf32>) -> tensor<2x512x16xf32> loc("transpose(jvp(layer0))/mlp/dot")
  %7 = stablehlo.dot_general %5, %w, contracting_dims = [2] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<2x512x16xf32>, tensor<16x16xf32>) -> tensor<2x512x16xf32> loc("transpose(jvp(layer0))/mlp/dot")
  %8 = stablehlo.add %6, %7 {name = "branches", scalify.phase = #scalify.phase<backward>} : tensor<2x512x16xf32> loc("transpose(jvp(layer0))/mlp/add")
  %9 = stablehlo.tanh %8 {scalify.phase = #scalify.phase<backward>} : tensor<2x512x16xf32> loc("transpose(jvp(layer0))/norm/tanh")
  %10 = stablehlo.negate %8 {scalify.phase = #scalify.phase<backward>} : tensor<2x512x16xf32> loc("transpose(jvp(layer0))/norm/neg")
  %11 = stablehlo.add %g, %9 {name = "inner", scalify.phase = #scalify.phase<backward>} : tensor<2x512x16xf32>
  %12 = stablehlo.add %11, %10 {name = "join", scalify.phase = #scalify.phase<backward>} : tensor<2x512x16xf32>
  return %3, %12 : tensor<2x512x16xf32>, tensor<2x512x16xf32>
}

// REMARK: remark: rescales: {{[1-9][0-9]*}} placed, which read {{[1-9][0-9]*}} bytes a step, {{[0-9.]+}} % of what current scaling reads
