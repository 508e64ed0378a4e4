// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-form-collectives))' -verify-diagnostics -split-input-file | FileCheck %s

// CHECK-LABEL: func.func @gather
// CHECK-SAME: (%[[X:.*]]: tensor<3x4xf32>)
func.func @gather(%x: tensor<3x4xf32>) -> (tensor<6x4xf32>, tensor<3x8xf32>) {
  // Along the first dimension parts lie one behind the other as they are.
  // CHECK: %[[ROWS:.*]] = plan.communicate all_gather none %[[X]] groups dense<{{\[\[}}0, 1]]> : tensor<1x2xi64> : (tensor<3x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: %[[R0:.*]] = stablehlo.reshape %[[ROWS]] : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<3x4xf32>) -> tensor<6x4xf32>
  // CHECK: %[[COLUMNS:.*]] = plan.communicate all_gather none %[[X]]
  // CHECK: %[[T:.*]] = stablehlo.transpose %[[COLUMNS]], dims = [1, 0, 2]
  // CHECK: %[[R1:.*]] = stablehlo.reshape %[[T]] : (tensor<3x2x4xf32>) -> tensor<3x8xf32>
  %1 = "stablehlo.all_gather"(%x) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<3x4xf32>) -> tensor<3x8xf32>
  // CHECK: return %[[R0]], %[[R1]]
  return %0, %1 : tensor<6x4xf32>, tensor<3x8xf32>
}

// -----

// CHECK-LABEL: func.func @scatter
// CHECK-SAME: (%[[X:.*]]: tensor<3x8xf32>)
func.func @scatter(%x: tensor<3x8xf32>) -> tensor<3x4xf32> {
  // CHECK: %[[CUT:.*]] = stablehlo.reshape %[[X]] : (tensor<3x8xf32>) -> tensor<3x2x4xf32>
  // CHECK: %[[PARTS:.*]] = stablehlo.transpose %[[CUT]], dims = [1, 0, 2]
  // CHECK: %[[SUM:.*]] = plan.communicate reduce_scatter max %[[PARTS]] {{.*}} : (tensor<2x3x4xf32>) -> tensor<3x4xf32>
  // CHECK: return %[[SUM]]
  %0 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<3x8xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// Heads for rows, as sequence parallel attention does.

// CHECK-LABEL: func.func @exchange
// CHECK-SAME: (%[[X:.*]]: tensor<3x8xf32>)
func.func @exchange(%x: tensor<3x8xf32>) -> tensor<6x4xf32> {
  // CHECK: %[[PARTS:.*]] = stablehlo.transpose %{{.*}}, dims = [1, 0, 2] : (tensor<3x2x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: %[[GOT:.*]] = plan.communicate all_to_all none %[[PARTS]] {{.*}} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: stablehlo.reshape %[[GOT]] : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %0 = "stablehlo.all_to_all"(%x) <{concat_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<3x8xf32>) -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}

// -----

// One for each operand; what the first of a group has is the first part of all.

// CHECK-LABEL: func.func @others
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<f32>)
func.func @others(%x: tensor<4xf32>, %y: tensor<f32>)
    -> (tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[SX:.*]] = plan.communicate all_reduce sum %[[X]]
  // CHECK: %[[SY:.*]] = plan.communicate all_reduce sum %[[Y]]
  %0:2 = "stablehlo.all_reduce"(%x, %y) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  // CHECK: %[[P:.*]] = plan.communicate permute none %[[X]] groups dense<{{\[\[}}0, 1]]>
  %1 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %[[B:.*]] = plan.communicate broadcast none %[[X]] groups dense<{{\[\[}}1, 0]]>
  %2 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %0#0, %0#1, %1, %2 : tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @difference(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{reduces by other than a sum, product, maximum, minimum, and, or of both elements}}
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.subtract %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @unequal(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has groups of unequal size}}
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
