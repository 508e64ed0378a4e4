// RUN: scalify-opt %s -verify-diagnostics -split-input-file

func.func @routine(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{'plan.factorize' op calls 'potri', which the runtime does not}}
  %l = plan.factorize "potri" %a sizes [1, 4, 4, 0] letters "L" : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %l : tensor<4x4xf32>
}

// -----

func.func @sizes(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{needs the sizes batch, m, n and k}}
  %l, %i = plan.factorize "potrf" %a sizes [4, 4] letters "L" : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<i32>)
  return %l : tensor<4x4xf32>
}

// -----

func.func @square(%a: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // expected-error @+1 {{has 4 rows and 3 columns, and needs a square}}
  %l, %i = plan.factorize "potrf" %a sizes [1, 4, 3, 0] letters "L" : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<i32>)
  return %l : tensor<4x3xf32>
}

// -----

func.func @letters(%a: tensor<4x4xf32>, %b: tensor<4x2xf32>) -> tensor<4x2xf32> {
  // expected-error @+1 {{has the options 'LLT', and needs 4}}
  %x = plan.factorize "trsm" %a, %b sizes [1, 4, 2, 0] letters "LLT" : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %x : tensor<4x2xf32>
}

// -----

func.func @letter(%a: tensor<4x4xf32>, %b: tensor<4x2xf32>) -> tensor<4x2xf32> {
  // expected-error @+1 {{has the option 'X', not one of 'NTC'}}
  %x = plan.factorize "trsm" %a, %b sizes [1, 4, 2, 0] letters "LLXN" : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %x : tensor<4x2xf32>
}

// -----

func.func @type(%a: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  // expected-error @+1 {{computes in f32 or f64, not 'bf16'}}
  %l, %i = plan.factorize "potrf" %a sizes [1, 4, 4, 0] letters "L" : (tensor<4x4xbf16>) -> (tensor<4x4xbf16>, tensor<i32>)
  return %l : tensor<4x4xbf16>
}

// -----

func.func @shape(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{has an operand of type 'tensor<4x4xf32>', not 2 times 4 x 4 of 'f32'}}
  %l, %i = plan.factorize "potrf" %a sizes [2, 4, 4, 0] letters "L" : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<i32>)
  return %l : tensor<4x4xf32>
}

// -----

func.func @huge(%a: tensor<4x4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{needs a work space of 3200240001 elements, more than LAPACK's 32-bit integers hold}}
  %v, %w, %i = plan.factorize "syevd" %a sizes [1, 40000, 40000, 0] letters "VL" : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<i32>)
  return %w : tensor<4xf32>
}

// -----

plan.program @work {
  %a = plan.argument 0 : memref<4x4xf32>
  %l = plan.result 0 : memref<4x4xf32>
  %i = plan.temp : memref<i32>
  %w = plan.temp : memref<15xf32>
  // expected-error @+1 {{has a work space of type 'memref<15xf32>', and needs 16 elements}}
  plan.lapack "potrf" reads(%a : memref<4x4xf32>) writes(%l, %i : memref<4x4xf32>, memref<i32>) work %w : memref<15xf32> sizes [1, 4, 4, 0] letters "L"
}

// -----

// A routine overwrites copies of its operands, not the operands.
plan.program @shared attributes {arena_bytes = 4096 : i64} {
  %a = plan.temp at 0 : memref<4x4xf32>
  %l = plan.temp at 0 : memref<4x4xf32>
  %i = plan.temp at 128 : memref<i32>
  %w = plan.temp at 256 : memref<16xf32>
  // expected-error @+1 {{writes bytes of operand 1 that operand 0 shares}}
  plan.lapack "potrf" reads(%a : memref<4x4xf32>) writes(%l, %i : memref<4x4xf32>, memref<i32>) work %w : memref<16xf32> sizes [1, 4, 4, 0] letters "L"
}
