// RUN: scalify-opt %s --scalify-prove-exchanges -split-input-file -verify-diagnostics

// Ranks 2 and 3 would be at the end when ranks 0 and 1 are in the second sum.
plan.program @left_out {
  %x = plan.argument 0 : memref<8xf32>
  %0 = plan.temp : memref<8xf32>
  plan.collective all_reduce sum %x to %0 groups dense<[[0, 1], [2, 3]]> : tensor<2x2xi64> : memref<8xf32>, memref<8xf32>
  // expected-error@+1 {{'plan.collective' op leaves out rank 3 of the 4 that there are}}
  plan.collective all_reduce sum %x to %0 groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<8xf32>, memref<8xf32>
}

// -----

// All meet: groups in any order, and along other axes, and what is sent on.
plan.program @proved {
  %x = plan.argument 0 : memref<8xf32>
  %0 = plan.temp : memref<8xf32>
  plan.collective all_reduce sum %x to %0 groups dense<[[0, 1], [2, 3]]> : tensor<2x2xi64> : memref<8xf32>, memref<8xf32>
  plan.collective all_reduce sum %x to %0 groups dense<[[3, 1], [0, 2]]> : tensor<2x2xi64> : memref<8xf32>, memref<8xf32>
  plan.collective permute none %x to %0 groups dense<[[0, 1], [1, 3]]> : tensor<2x2xi64> : memref<8xf32>, memref<8xf32>
}

// -----

plan.program @many_ranks {
  %x = plan.argument 0 : memref<32xf32>
  %r = plan.result 0 : memref<64xf32>
  // expected-error @+1 {{is of a job of more than 1048576 ranks}}
  plan.collective all_gather none %x to %r groups dense<[[0, 9223372036854775807]]> : tensor<1x2xi64> : memref<32xf32>, memref<64xf32>
}
