// RUN: scalify-opt %s --split-input-file --scalify-outline-loops='max-ops=19' | FileCheck %s
// RUN: scalify-opt %s --split-input-file --scalify-outline-loops='max-ops=19' \
// RUN:   --scalify-unroll-loops | FileCheck %s --check-prefix=UNROLL

// A loop of unknown trip count has its condition as one more carry. What the body reads from outside
// is read; the constant is cloned.
// CHECK-LABEL: func.func @until
// UNROLL-LABEL: func.func @until
func.func @until(%a: tensor<f32>, %n: tensor<f32>) -> tensor<f32> {
  // CHECK: %[[P:.*]] = stablehlo.compare LT, %arg0, %arg1
  // CHECK: %[[R:.*]]:2 = plan.iterate @loop0 carries(%arg0, %[[P]]) reads(%arg1) while 1
  // CHECK: return %[[R]]#0
  %two = stablehlo.constant dense<2.0> : tensor<f32>
  %r = stablehlo.while(%x = %a) : tensor<f32>
    cond {
      %p = stablehlo.compare LT, %x, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %y = stablehlo.multiply %x, %two : tensor<f32>
      stablehlo.return %y : tensor<f32>
    }
  return %r : tensor<f32>
}
// CHECK: func.func private @loop0(%[[X:.*]]: tensor<f32> {tf.aliasing_output = 0 : i32}, %{{.*}}: tensor<i1> {tf.aliasing_output = 1 : i32}, %[[N:.*]]: tensor<f32>)
// CHECK: %[[TWO:.*]] = stablehlo.constant dense<2.0
// CHECK: %[[Y:.*]] = stablehlo.multiply %[[X]], %[[TWO]]
// CHECK: %[[Q:.*]] = stablehlo.compare LT, %[[Y]], %[[N]]
// CHECK: return %[[Y]], %[[Q]]

// -----

// Ten iterations of two ops are above the limit, five are not. A carry that the body returns
// unchanged is read.
// CHECK-LABEL: func.func @counted
// UNROLL-LABEL: func.func @counted
func.func @counted(%a: tensor<8xf32>, %w: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c5 = stablehlo.constant dense<5> : tensor<i32>
  %c10 = stablehlo.constant dense<10> : tensor<i32>
  // CHECK: plan.iterate @loop0 carries(%{{.*}}, %arg0) reads(%arg1) trips 10
  // UNROLL: plan.iterate
  %r:3 = stablehlo.while(%i = %c0, %x = %a, %v = %w) : tensor<i32>, tensor<8xf32>, tensor<8xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c10 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %y = stablehlo.add %x, %v : tensor<8xf32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y, %v : tensor<i32>, tensor<8xf32>, tensor<8xf32>
    }
  // CHECK: stablehlo.while
  // UNROLL-NOT: stablehlo.while
  // UNROLL-COUNT-5: stablehlo.add
  %s:2 = stablehlo.while(%i = %c0, %x = %r#1) : tensor<i32>, tensor<8xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c5 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %y = stablehlo.add %x, %w : tensor<8xf32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y : tensor<i32>, tensor<8xf32>
    }
  // CHECK: return %{{.*}}#1, %arg1
  return %s#1, %r#2 : tensor<8xf32>, tensor<8xf32>
}

// -----

// In a branch that data choose, the condition also says whether the branch runs.
// CHECK-LABEL: func.func @branch
// UNROLL-LABEL: func.func @branch
func.func @branch(%p: tensor<i1>, %a: tensor<f32>, %n: tensor<f32>) -> tensor<f32> {
  // UNROLL: %[[FIRST:.*]] = stablehlo.compare LT, %arg1, %arg2
  // UNROLL: %[[RUNS:.*]] = stablehlo.and %[[FIRST]], %arg0
  // UNROLL: plan.iterate @loop0 carries(%arg1, %[[RUNS]]) reads(%arg2) while 1
  // UNROLL: stablehlo.select %arg0
  %r = "stablehlo.if"(%p) ({
    %s = stablehlo.while(%x = %a) : tensor<f32>
      cond {
        %q = stablehlo.compare LT, %x, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %q : tensor<i1>
      } do {
        %y = stablehlo.add %x, %x : tensor<f32>
        stablehlo.return %y : tensor<f32>
      }
    stablehlo.return %s : tensor<f32>
  }, {
    stablehlo.return %a : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

// An inner loop that is outlined is one op of the outer one, which is unrolled.
// CHECK-LABEL: func.func @nested
// UNROLL-LABEL: func.func @nested
func.func @nested(%a: tensor<f32>) -> tensor<f32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %c50 = stablehlo.constant dense<50> : tensor<i32>
  // UNROLL-COUNT-2: plan.iterate @loop0
  // UNROLL-NOT: plan.iterate
  %r:2 = stablehlo.while(%i = %c0, %x = %a) : tensor<i32>, tensor<f32>
    cond {
      %p = stablehlo.compare LT, %i, %c2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %q:2 = stablehlo.while(%k = %c0, %y = %x) : tensor<i32>, tensor<f32>
        cond {
          %p = stablehlo.compare LT, %k, %c50 : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        } do {
          %z = stablehlo.add %y, %y : tensor<f32>
          %l = stablehlo.add %k, %c1 : tensor<i32>
          stablehlo.return %l, %z : tensor<i32>, tensor<f32>
        }
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %q#1 : tensor<i32>, tensor<f32>
    }
  return %r#1 : tensor<f32>
}

// -----

// A call with side effects has an order, which only one program keeps.
// CHECK-LABEL: func.func @calls
// UNROLL-LABEL: func.func @calls
func.func @calls(%a: tensor<f32>) -> tensor<f32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c10 = stablehlo.constant dense<10> : tensor<i32>
  // CHECK: stablehlo.while
  // UNROLL-COUNT-10: plan.invoke "print"
  %r:2 = stablehlo.while(%i = %c0, %x = %a) : tensor<i32>, tensor<f32>
    cond {
      %p = stablehlo.compare LT, %i, %c10 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      plan.invoke "print" %x callback 0 effects : (tensor<f32>) -> ()
      %y = stablehlo.add %x, %x : tensor<f32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y : tensor<i32>, tensor<f32>
    }
  return %r#1 : tensor<f32>
}

// -----

// A mask follows from constants: the body computes it again, and reads the bound alone.
// CHECK-LABEL: func.func @mask
func.func @mask(%a: tensor<4x4xf32>, %n: tensor<f32>) -> tensor<4x4xf32> {
  // CHECK: plan.iterate @loop0 carries(%arg0, %{{.*}}) reads(%arg1) while 1
  %i = stablehlo.iota dim = 0 : tensor<4x4xi32>
  %j = stablehlo.iota dim = 1 : tensor<4x4xi32>
  %m = stablehlo.compare GE, %i, %j, SIGNED : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi1>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %zs = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  %r:2 = stablehlo.while(%x = %a, %mask = %m) : tensor<4x4xf32>, tensor<4x4xi1>
    cond {
      %s = stablehlo.slice %x [0:1, 0:1] : (tensor<4x4xf32>) -> tensor<1x1xf32>
      %t = stablehlo.reshape %s : (tensor<1x1xf32>) -> tensor<f32>
      %p = stablehlo.compare LT, %t, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %y = stablehlo.select %mask, %x, %zs : tensor<4x4xi1>, tensor<4x4xf32>
      stablehlo.return %y, %mask : tensor<4x4xf32>, tensor<4x4xi1>
    }
  return %r#0 : tensor<4x4xf32>
}
// CHECK: func.func private @loop0(%[[X:.*]]: tensor<4x4xf32> {{.*}}, %{{.*}}: tensor<i1> {{.*}}, %{{.*}}: tensor<f32>)
// CHECK: %[[M:.*]] = stablehlo.compare GE
// CHECK: stablehlo.select %[[M]], %[[X]]
