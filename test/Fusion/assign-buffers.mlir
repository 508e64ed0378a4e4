// RUN: scalify-opt %s --scalify-assign-buffers -split-input-file | FileCheck %s

// A dead temporary's bytes are used again.
// CHECK-LABEL: plan.program @reuse attributes {arena_bytes = 128 : i64}
plan.program @reuse {
  %x = plan.argument 0 : memref<16xf32>
  %y = plan.result 0 : memref<16xf32>
  // CHECK: plan.temp at 0
  %a = plan.temp : memref<16xf32>
  // CHECK: plan.temp at 64
  %b = plan.temp : memref<16xf32>
  // CHECK: plan.temp at 0
  %c = plan.temp : memref<16xf32>
  plan.copy %x to %a : memref<16xf32>, memref<16xf32>
  plan.copy %a to %b : memref<16xf32>, memref<16xf32>
  plan.copy %b to %c : memref<16xf32>, memref<16xf32>
  plan.copy %c to %y : memref<16xf32>, memref<16xf32>
}

// -----

// An input that dies and is read element by element hands its memory over.
// CHECK-LABEL: plan.program @in_place attributes {arena_bytes = 64 : i64}
plan.program @in_place {
  %x = plan.argument 0 : memref<16xf32>
  %y = plan.result 0 : memref<16xf32>
  // CHECK: plan.temp at 0
  // CHECK: plan.temp at 0
  %a = plan.temp : memref<16xf32>
  %b = plan.temp : memref<16xf32>
  plan.copy %x to %a : memref<16xf32>, memref<16xf32>
  // CHECK: plan.kernel "negate" {{.*}} attributes {inplace = array<i64: 0, 0>}
  plan.kernel "negate" reads(%a : memref<16xf32>) writes(%b : memref<16xf32>) {
  ^bb0(%v: tensor<16xf32>):
    %n = stablehlo.negate %v : tensor<16xf32>
    plan.yield %n : tensor<16xf32>
  }
  plan.copy %b to %y : memref<16xf32>, memref<16xf32>
}

// -----

// A part lies in its whole, which lives from the first part that is written.
// CHECK-LABEL: plan.program @parts attributes {arena_bytes = 192 : i64}
plan.program @parts {
  %x = plan.argument 0 : memref<16xf32>
  %y = plan.result 0 : memref<2x16xf32>
  // CHECK: %[[WHOLE:.*]] = plan.temp at 0 : memref<2x16xf32>
  // CHECK: plan.temp at 0 part of %[[WHOLE]] : memref<2x16xf32> from 0 : memref<16xf32>
  // CHECK: plan.temp at 64 part of %[[WHOLE]] : memref<2x16xf32> from 64 : memref<16xf32>
  // CHECK: plan.temp at 128 : memref<16xf32>
  %s = plan.temp : memref<2x16xf32>
  %a = plan.temp part of %s : memref<2x16xf32> from 0 : memref<16xf32>
  %b = plan.temp part of %s : memref<2x16xf32> from 64 : memref<16xf32>
  %c = plan.temp : memref<16xf32>
  plan.copy %x to %a : memref<16xf32>, memref<16xf32>
  plan.copy %x to %c : memref<16xf32>, memref<16xf32>
  // The input dies, but its memory is not where the part is.
  // CHECK: plan.kernel "negate"
  // CHECK-NOT: inplace
  plan.kernel "negate" reads(%c : memref<16xf32>) writes(%b : memref<16xf32>) {
  ^bb0(%v: tensor<16xf32>):
    %n = stablehlo.negate %v : tensor<16xf32>
    plan.yield %n : tensor<16xf32>
  }
  plan.copy %s to %y : memref<2x16xf32>, memref<2x16xf32>
}

// -----

// A stream still reads %a when the other one needs memory for %c, and is done
// when that needs some for %d. %b takes the memory of nobody, since the other
// stream reads %a too.
// CHECK-LABEL: plan.program @streams attributes {arena_bytes = 192 : i64}
plan.program @streams {
  %x = plan.argument 0 : memref<16xf32>
  %y = plan.result 0 : memref<16xf32>
  %z = plan.result 1 : memref<16xf32>
  // CHECK: plan.temp at 0
  %a = plan.temp : memref<16xf32>
  // CHECK: plan.temp at 64
  %b = plan.temp : memref<16xf32>
  // CHECK: plan.temp at 128
  %c = plan.temp : memref<16xf32>
  // CHECK: plan.temp at 0
  %d = plan.temp : memref<16xf32>
  plan.copy %x to %a : memref<16xf32>, memref<16xf32>
  plan.record 0 on 0
  plan.wait 0 on 1
  plan.copy %a to %y {plan.stream = 1 : i64} : memref<16xf32>, memref<16xf32>
  plan.record 1 on 1
  // CHECK: plan.kernel "negate"
  // CHECK-NOT: inplace
  plan.kernel "negate" reads(%a : memref<16xf32>) writes(%b : memref<16xf32>) {
  ^bb0(%v: tensor<16xf32>):
    %n = stablehlo.negate %v : tensor<16xf32>
    plan.yield %n : tensor<16xf32>
  }
  plan.copy %b to %c : memref<16xf32>, memref<16xf32>
  plan.wait 1 on 0
  plan.copy %c to %d : memref<16xf32>, memref<16xf32>
  plan.copy %d to %z : memref<16xf32>, memref<16xf32>
}

// -----

// In the order of the program the small buffer takes a part of the hole that
// the large one at the end would have: 256 + 64 + 256 bytes. The largest first
// lie in the same place.
// CHECK-LABEL: plan.program @largest_first attributes {arena_bytes = 384 : i64}
plan.program @largest_first {
  %x = plan.argument 0 : memref<64xf32>
  %s = plan.argument 1 : memref<16xf32>
  %y = plan.result 0 : memref<64xf32>
  %z = plan.result 1 : memref<16xf32>
  // CHECK-DAG: plan.temp at 0 : memref<64xf32>
  // CHECK-DAG: plan.temp at 256 : memref<16xf32>
  // CHECK-DAG: plan.temp at 320 : memref<16xf32>
  // CHECK-DAG: plan.temp at 0 : memref<64xf32>
  %a = plan.temp : memref<64xf32>
  %b = plan.temp : memref<16xf32>
  %c = plan.temp : memref<16xf32>
  %d = plan.temp : memref<64xf32>
  plan.copy %x to %a : memref<64xf32>, memref<64xf32>
  plan.copy %s to %b : memref<16xf32>, memref<16xf32>
  plan.copy %a to %y : memref<64xf32>, memref<64xf32>
  plan.copy %s to %c : memref<16xf32>, memref<16xf32>
  plan.copy %x to %d : memref<64xf32>, memref<64xf32>
  plan.copy %d to %y : memref<64xf32>, memref<64xf32>
  plan.copy %b to %z : memref<16xf32>, memref<16xf32>
  plan.copy %c to %z : memref<16xf32>, memref<16xf32>
}
