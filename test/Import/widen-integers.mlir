// RUN: scalify-opt %s --split-input-file --verify-diagnostics --scalify-widen-integers | FileCheck %s

// CHECK-LABEL: @signed
// CHECK-SAME: (%[[X:.*]]: tensor<3xi8>)
func.func @signed(%x: tensor<3xi8>) -> (tensor<3xi8>, tensor<3xi1>) {
  // CHECK: %[[N:.*]] = stablehlo.convert %[[X]] : tensor<3xi8>
  // CHECK: %[[FOUR:.*]] = stablehlo.constant dense<4> : tensor<3xi8>
  // CHECK: %[[L:.*]] = stablehlo.shift_left %[[N]], %[[FOUR]]
  // CHECK: %[[W:.*]] = stablehlo.shift_right_arithmetic %[[L]], %[[FOUR]]
  %0 = stablehlo.convert %x : (tensor<3xi8>) -> tensor<3xi4>
  // CHECK: %[[C:.*]] = stablehlo.constant dense<[-8, 7, -1]> : tensor<3xi8>
  %c = stablehlo.constant dense<[-8, 7, -1]> : tensor<3xi4>
  // CHECK: %[[M:.*]] = stablehlo.maximum %[[W]], %[[C]] : tensor<3xi8>
  %1 = stablehlo.maximum %0, %c : tensor<3xi4>
  // CHECK: stablehlo.compare LT, %[[M]], %[[C]], SIGNED
  %2 = stablehlo.compare LT, %1, %c, SIGNED : (tensor<3xi4>, tensor<3xi4>) -> tensor<3xi1>
  // CHECK: stablehlo.convert %[[M]] : tensor<3xi8>
  %3 = stablehlo.convert %1 : (tensor<3xi4>) -> tensor<3xi8>
  return %3, %2 : tensor<3xi8>, tensor<3xi1>
}

// CHECK-LABEL: @unsigned
func.func @unsigned(%x: tensor<ui8>) -> tensor<ui8> {
  %0 = stablehlo.convert %x : (tensor<ui8>) -> tensor<ui2>
  // CHECK: %[[S:.*]] = stablehlo.add %{{.*}} : tensor<ui8>
  // CHECK: %[[MASK:.*]] = stablehlo.constant dense<3> : tensor<ui8>
  // CHECK: stablehlo.and %[[S]], %[[MASK]]
  %1 = stablehlo.add %0, %0 : tensor<ui2>
  %2 = stablehlo.convert %1 : (tensor<ui2>) -> tensor<ui8>
  return %2 : tensor<ui8>
}

// CHECK-LABEL: @floats
func.func @floats(%x: tensor<3xf32>) -> tensor<3xi8> {
  // CHECK: %[[N:.*]] = stablehlo.convert %{{.*}} : (tensor<3xf32>) -> tensor<3xi8>
  // CHECK-DAG: %[[LOW:.*]] = stablehlo.constant dense<-8> : tensor<3xi8>
  // CHECK-DAG: %[[TOP:.*]] = stablehlo.constant dense<7> : tensor<3xi8>
  // CHECK: stablehlo.clamp %[[LOW]], %[[N]], %[[TOP]]
  %0 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xi4>
  %1 = stablehlo.convert %0 : (tensor<3xi4>) -> tensor<3xi8>
  return %1 : tensor<3xi8>
}

// -----

func.func @bits(%x: tensor<3xi8>) -> tensor<3x2xi4> {
  // expected-error @+1 {{'stablehlo.bitcast_convert' op between 'tensor<3xi8>' and 'tensor<3x2xi4>' has no lowering: integers below 8 bits take a byte each}}
  %0 = stablehlo.bitcast_convert %x : (tensor<3xi8>) -> tensor<3x2xi4>
  return %0 : tensor<3x2xi4>
}

// -----

func.func @sparse(%x: tensor<2xi4>) -> tensor<2xi4> {
  // expected-error @+1 {{of 'tensor<2xi4>' has elements in the form sparse<0, 1> : tensor<2xi4>; write them as dense<...>}}
  %c = stablehlo.constant sparse<[[0]], [1]> : tensor<2xi4>
  %0 = stablehlo.add %x, %c : tensor<2xi4>
  return %0 : tensor<2xi4>
}
