// RUN: scalify-opt %s -verify-diagnostics -split-input-file

plan.program @step {
  %s = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{runs @none, which is no plan.program of the module}}
  plan.loop @none carries(%s : memref<16xf32>) trips 4
}

// -----

plan.program @step {
  %s = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{needs either 'trips' or 'while'}}
  plan.loop @step carries(%s : memref<16xf32>)
}

// -----

plan.program @step {
  %s = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{needs at least one trip}}
  plan.loop @step carries(%s : memref<16xf32>) trips 0
}

// -----

plan.program @step {
  %s = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{runs while a carry of 'memref<16xf32>', not one i1}}
  plan.loop @step carries(%s : memref<16xf32>) while 0
}

// -----

plan.program @step {
  %s = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{runs while carry 1, and there are 1}}
  plan.loop @step carries(%s : memref<16xf32>) while 1
}

// -----

plan.program @step {
  %s = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{needs 4 numbers a slice}}
  plan.loop @step carries(%s : memref<16xf32>) trips 2 slices [0, 0, 64]
}

// -----

plan.program @step {
  %s = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{has a slice of operand 1 up to byte 0}}
  plan.loop @step carries(%s : memref<16xf32>) trips 2 slices [1, 0, 64, 0]
}

// -----

plan.program @body {
  %s = plan.argument 0 : memref<16xf32>
  %t = plan.result 0 aliases 0 : memref<16xf32>
}
plan.program @step {
  %s = plan.argument 0 : memref<4x16xf32>
  // expected-error @+1 {{passes 'memref<4x16xf32>' as argument 0 of @body, which is 'memref<16xf32>'}}
  plan.loop @body carries(%s : memref<4x16xf32>) trips 2
}

// -----

plan.program @body {
  %s = plan.argument 0 : memref<16xf32>
  %t = plan.result 0 aliases 0 : memref<16xf32>
}
plan.program @step {
  %s = plan.argument 0 : memref<4x16xf32>
  // expected-error @+1 {{passes 'memref<4x16xf32>' as argument 0 of @body}}
  plan.loop @body carries(%s : memref<4x16xf32>) trips 2 slices [0, 0, 64, 256]
}

// -----

plan.program @body {
  %s = plan.argument 0 : memref<16xf32>
  %t = plan.result 0 : memref<16xf32>
  plan.copy %s to %t : memref<16xf32>, memref<16xf32>
}
plan.program @step {
  %s = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{needs each result of @body in the memory of its carry}}
  plan.loop @body carries(%s : memref<16xf32>) trips 2
}

// -----

plan.program @body {
  %s = plan.argument 0 : memref<16xf32>
  %t = plan.result 0 aliases 0 : memref<16xf32>
}
plan.program @step {
  %s = plan.argument 0 : memref<16xf32>
  %u = plan.argument 1 : memref<16xf32>
  // expected-error @+1 {{has more carries than @body has results}}
  plan.loop @body carries(%s, %u : memref<16xf32>, memref<16xf32>) trips 2
}

// -----

// A carry that is read as well, by another name.
plan.program @body {
  %s = plan.argument 0 : memref<16xf32>
  %x = plan.argument 1 : memref<16xf32>
  %t = plan.result 0 aliases 0 : memref<16xf32>
}
plan.program @step {
  %s = plan.temp : memref<16xf32>
  plan.fill %s with 0 : memref<16xf32>
  // expected-error @+1 {{writes bytes of operand 0 that operand 1 shares}}
  plan.loop @body carries(%s : memref<16xf32>) reads(%s : memref<16xf32>) trips 2
}

// -----

func.func @types(%s: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error @+1 {{has results of other types than its carries}}
  %r = plan.iterate @body carries(%s) trips 4 : (tensor<4xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}
