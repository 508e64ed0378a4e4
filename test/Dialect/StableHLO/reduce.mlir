// RUN: scalify-opt %s | FileCheck %s

// Reductions in their compact and region forms, windows, sort and map.

// CHECK-LABEL: func.func @compact
func.func @compact(%a: tensor<4x6xf32>, %z: tensor<f32>) {
  // CHECK: stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK: stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.maximum across dimensions = [0, 1] {mhlo.x = 1 : i32} : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
  %1 = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [0, 1] {mhlo.x = 1 : i32} : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
  // CHECK: stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.multiply across dimensions = [] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %2 = stablehlo.reduce(%a init: %z) applies stablehlo.multiply across dimensions = [] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  return
}

// CHECK-LABEL: func.func @region
func.func @region(%a: tensor<4x6xf32>, %i: tensor<4x6xi32>, %z: tensor<f32>, %k: tensor<i32>) {
  // CHECK: stablehlo.reduce(%{{.*}} init: %{{.*}}), (%{{.*}} init: %{{.*}}) across dimensions = [1] : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
  %0:2 = stablehlo.reduce(%a init: %z), (%i init: %k) across dimensions = [1] : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
  // CHECK-NEXT: reducer(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>) (%[[C:.*]]: tensor<i32>, %[[D:.*]]: tensor<i32>)
  reducer(%x: tensor<f32>, %y: tensor<f32>) (%u: tensor<i32>, %v: tensor<i32>) {
  // CHECK-NEXT: stablehlo.maximum %[[A]], %[[B]]
  %m = stablehlo.maximum %x, %y : tensor<f32>
  // CHECK-NEXT: stablehlo.minimum %[[C]], %[[D]]
  %n = stablehlo.minimum %u, %v : tensor<i32>
  stablehlo.return %m, %n : tensor<f32>, tensor<i32>
  }
  return
}

// CHECK-LABEL: func.func @not_commutative_is_a_region
func.func @not_commutative_is_a_region(%a: tensor<4x6xf32>, %z: tensor<f32>) {
  // CHECK: stablehlo.reduce(%{{.*}} init: %{{.*}}) across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK-NEXT: reducer(
  reducer(%x: tensor<f32>, %y: tensor<f32>) {
  // CHECK: stablehlo.subtract %{{.*}}, %{{.*}} : tensor<f32>
  %m = stablehlo.subtract %x, %y : tensor<f32>
  stablehlo.return %m : tensor<f32>
  }
  return
}

// CHECK-LABEL: func.func @one_location_is_compact
func.func @one_location_is_compact(%a: tensor<4x6xf32>, %z: tensor<f32>) {
  // CHECK: stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.add across dimensions = [1]
  %0 = "stablehlo.reduce"(%a, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32> loc("r"), %y: tensor<f32> loc("r")):
  %1 = stablehlo.add %x, %y : tensor<f32> loc("r")
  stablehlo.return %1 : tensor<f32> loc("r")
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32> loc("r")
  return
}

// CHECK-LABEL: func.func @other_locations_are_a_region
func.func @other_locations_are_a_region(%a: tensor<4x6xf32>, %z: tensor<f32>) {
  // CHECK: stablehlo.reduce(%{{.*}} init: %{{.*}}) across dimensions = [1]
  // CHECK-NEXT: reducer(
  %0 = "stablehlo.reduce"(%a, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32> loc("r"), %y: tensor<f32> loc("r")):
  %1 = stablehlo.add %x, %y : tensor<f32> loc("inner")
  stablehlo.return %1 : tensor<f32> loc("r")
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32> loc("r")
  return
}

// CHECK-LABEL: func.func @windows
func.func @windows(%a: tensor<4x6xf32>, %s: tensor<2x3xf32>, %z: tensor<f32>) {
  // CHECK: "stablehlo.reduce_window"(%{{.*}}, %{{.*}}) <{base_dilations = array<i64: 1, 1>, padding = dense<{{\[\[}}0, 1], [0, 1]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 1, 1>}> ({
  %0 = "stablehlo.reduce_window"(%a, %z) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 1], [0, 1]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 1, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
  // CHECK: stablehlo.add %{{.*}}, %{{.*}} : tensor<f32>
  %1 = stablehlo.add %x, %y : tensor<f32>
  stablehlo.return %1 : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  // CHECK: "stablehlo.select_and_scatter"(%{{.*}}, %{{.*}}, %{{.*}}) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
  %2 = "stablehlo.select_and_scatter"(%a, %s, %z) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
  // CHECK: stablehlo.compare GE, %{{.*}}, %{{.*}}, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %3 = stablehlo.compare GE, %x, %y, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %3 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
  // CHECK: stablehlo.add %{{.*}}, %{{.*}} : tensor<f32>
  %3 = stablehlo.add %x, %y : tensor<f32>
  stablehlo.return %3 : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<4x6xf32>
  return
}

// CHECK-LABEL: func.func @sort_and_map
func.func @sort_and_map(%a: tensor<4x6xf32>, %i: tensor<4x6xi32>) {
  // CHECK: "stablehlo.sort"(%{{.*}}, %{{.*}}) <{dimension = 1 : i64, is_stable = true}> ({
  %0:2 = "stablehlo.sort"(%a, %i) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %u: tensor<i32>, %v: tensor<i32>):
  // CHECK: stablehlo.compare LT, %{{.*}}, %{{.*}}, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %1 = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %1 : tensor<i1>
  }) : (tensor<4x6xf32>, tensor<4x6xi32>) -> (tensor<4x6xf32>, tensor<4x6xi32>)
  // CHECK: "stablehlo.map"(%{{.*}}, %{{.*}}) <{dimensions = array<i64: 0, 1>}> ({
  %2 = "stablehlo.map"(%a, %a) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
  // CHECK: stablehlo.add %{{.*}}, %{{.*}} : tensor<f32>
  %3 = stablehlo.add %x, %y : tensor<f32>
  stablehlo.return %3 : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}
