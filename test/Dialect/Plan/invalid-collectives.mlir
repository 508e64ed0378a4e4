// RUN: scalify-opt %s -verify-diagnostics -split-input-file

plan.program @twice {
  %x = plan.argument 0 : memref<4xf32>
  %y = plan.result 0 : memref<4xf32>
  // expected-error @+1 {{names rank 1, which is negative or occurs twice}}
  plan.collective all_reduce sum %x to %y groups dense<[[0, 1], [1, 2]]> : tensor<2x2xi64> : memref<4xf32>, memref<4xf32>
}

// -----

plan.program @no_join {
  %x = plan.argument 0 : memref<4xf32>
  %y = plan.result 0 : memref<4xf32>
  // expected-error @+1 {{needs a reduction such as 'sum'}}
  plan.collective all_reduce none %x to %y groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<4xf32>, memref<4xf32>
}

// -----

plan.program @joins {
  %x = plan.argument 0 : memref<4xf32>
  %y = plan.result 0 : memref<8xf32>
  // expected-error @+1 {{reduces nothing, and needs 'none'}}
  plan.collective all_gather max %x to %y groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<4xf32>, memref<8xf32>
}

// -----

plan.program @size {
  %x = plan.argument 0 : memref<4xf32>
  %y = plan.result 0 : memref<4xf32>
  // expected-error @+1 {{takes 4 elements and gives 4 in groups of 2}}
  plan.collective all_gather none %x to %y groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<4xf32>, memref<4xf32>
}

// -----

plan.program @uneven {
  %x = plan.argument 0 : memref<5xf32>
  %y = plan.result 0 : memref<5xf32>
  // expected-error @+1 {{takes 5 elements and gives 5 in groups of 2}}
  plan.collective all_to_all none %x to %y groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<5xf32>, memref<5xf32>
}

// -----

plan.program @type {
  %x = plan.argument 0 : memref<4xf32>
  %y = plan.result 0 : memref<4xbf16>
  // expected-error @+1 {{changes the element type}}
  plan.collective all_reduce sum %x to %y groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<4xf32>, memref<4xbf16>
}

// -----

plan.program @two_targets {
  %x = plan.argument 0 : memref<4xf32>
  %y = plan.result 0 : memref<4xf32>
  // expected-error @+1 {{sends twice from or to rank 0}}
  plan.collective permute none %x to %y groups dense<[[0, 1], [0, 2]]> : tensor<2x2xi64> : memref<4xf32>, memref<4xf32>
}

// -----

// The destination is written while the argument whose memory it takes is read.
plan.program @in_place {
  %x = plan.argument 0 : memref<4xf32>
  %y = plan.result 0 aliases 0 : memref<4xf32>
  // expected-error @+1 {{reads argument 0}}
  plan.collective all_reduce sum %x to %y groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<4xf32>, memref<4xf32>
}

// -----

// No number is special to the check: the largest may occur once.
plan.program @largest {
  %x = plan.argument 0 : memref<4xf32>
  %y = plan.result 0 : memref<4xf32>
  // expected-error @+1 {{names rank 9223372036854775807, which is negative or occurs twice}}
  plan.collective all_reduce sum %x to %y groups dense<[[9223372036854775807, 9223372036854775807]]> : tensor<1x2xi64> : memref<4xf32>, memref<4xf32>
}
