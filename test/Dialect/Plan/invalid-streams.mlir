// RUN: scalify-opt %s -verify-diagnostics -split-input-file

// A read beside the write that it needs.
plan.program @read {
  %x = plan.argument 0 : memref<16xf32>
  %y = plan.result 0 : memref<16xf32>
  %a = plan.temp : memref<16xf32>
  // expected-note @+1 {{the other command}}
  plan.copy %x to %a : memref<16xf32>, memref<16xf32>
  // expected-error @+1 {{touches bytes that a command of another stream touches, and neither waits for the other}}
  plan.copy %a to %y {plan.stream = 1 : i64} : memref<16xf32>, memref<16xf32>
}

// -----

// An event that is recorded too early: what it waits for is not yet given.
plan.program @early {
  %x = plan.argument 0 : memref<16xf32>
  %y = plan.result 0 : memref<16xf32>
  %a = plan.temp : memref<16xf32>
  plan.record 0 on 0
  // expected-note @+1 {{the other command}}
  plan.copy %x to %a : memref<16xf32>, memref<16xf32>
  plan.wait 0 on 1
  // expected-error @+1 {{neither waits for the other}}
  plan.copy %a to %y {plan.stream = 1 : i64} : memref<16xf32>, memref<16xf32>
}

// -----

// The arena's bytes are used again while another stream still reads them.
plan.program @again attributes {arena_bytes = 64 : i64} {
  %x = plan.argument 0 : memref<16xf32>
  %y = plan.result 0 : memref<16xf32>
  %z = plan.result 1 : memref<16xf32>
  %a = plan.temp at 0 : memref<16xf32>
  %b = plan.temp at 0 : memref<16xf32>
  plan.copy %x to %a : memref<16xf32>, memref<16xf32>
  plan.record 0 on 0
  plan.wait 0 on 1
  // expected-note @+1 {{the other command}}
  plan.copy %a to %y {plan.stream = 1 : i64} : memref<16xf32>, memref<16xf32>
  // expected-error @+1 {{neither waits for the other}}
  plan.copy %x to %b : memref<16xf32>, memref<16xf32>
  plan.copy %b to %z : memref<16xf32>, memref<16xf32>
}

// -----

// A donated argument is written while its old value is read.
plan.program @donated {
  %x = plan.argument 0 : memref<16xf32>
  %y = plan.result 0 aliases 0 : memref<16xf32>
  %z = plan.result 1 : memref<16xf32>
  // expected-note @+1 {{the other command}}
  plan.copy %x to %z {plan.stream = 2 : i64} : memref<16xf32>, memref<16xf32>
  // expected-error @+1 {{neither waits for the other}}
  plan.fill %y with 0 : memref<16xf32>
}

// -----

plan.program @unrecorded {
  // expected-error @+1 {{waits for event 3, which is not recorded before}}
  plan.wait 3 on 1
}

// -----

plan.program @twice {
  plan.record 0 on 0
  // expected-error @+1 {{records event 0 a second time}}
  plan.record 0 on 1
}

// -----

plan.program @many {
  // expected-error @+1 {{is on stream 16, but there are at most 16}}
  plan.record 0 on 16
}

// -----

plan.program @attention {
  %q = plan.argument 0 : memref<1x16x2x8xbf16>
  %o = plan.result 0 : memref<1x16x2x8xbf16>
  %s = plan.temp : memref<1x2x16xf32>
  // expected-error @+1 {{is on stream 1, and attentions run on stream 0}}
  plan.attention "attention" reads(%q, %q, %q : memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>) writes(%o, %s : memref<1x16x2x8xbf16>, memref<1x2x16xf32>) sizes [1, 2, 2, 16, 16, 8] windows [0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16] scale 1.0 {plan.stream = 1 : i64}
}

// -----

// Ranks find each other's collectives by their order: there is one.
plan.program @collectives {
  %x = plan.argument 0 : memref<16xf32>
  %y = plan.result 0 : memref<16xf32>
  %z = plan.result 1 : memref<16xf32>
  plan.collective all_reduce sum %x to %y groups dense<[[0, 1]]> : tensor<1x2xi64> {plan.stream = 1 : i64} : memref<16xf32>, memref<16xf32>
  // expected-error @+1 {{may run beside another collective}}
  plan.collective all_reduce max %x to %z groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<16xf32>, memref<16xf32>
}
