// RUN: not scalify-opt %s 2>&1 | FileCheck %s

// The sizes multiply to 2^64 + 8: 8 bytes are not one for each element, which
// would be packed to a bit for each.
func.func @many() -> tensor<8x2305843009213693953xi1> {
  // CHECK: :[[#@LINE+1]]:27: error: elements hex data size is invalid
  %c = stablehlo.constant dense<"0x0100010001000100"> : tensor<8x2305843009213693953xi1>
  return %c : tensor<8x2305843009213693953xi1>
}
