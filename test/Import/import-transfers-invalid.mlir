// RUN: scalify-opt %s --scalify-import-callbacks -split-input-file -verify-diagnostics

func.func public @main(%a: tensor<4xf32>) {
  %0 = stablehlo.create_token : !stablehlo.token
  // expected-error @+1 {{'stablehlo.send' op transfers data while the step runs, which no target does; use arguments, results or callbacks}}
  %1 = "stablehlo.send"(%a, %0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  return
}

// -----

func.func public @main() -> tensor<4xf32> {
  %0 = stablehlo.create_token : !stablehlo.token
  // expected-error @+1 {{'stablehlo.infeed' op transfers data}}
  %1:2 = "stablehlo.infeed"(%0) <{infeed_config = "x"}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  return %1#0 : tensor<4xf32>
}
