// A step of gradient descent on the mean of (w * x - y)^2 over eight samples: w and the loss.
module @step {
  func.func public @main(%w: tensor<f32> {jax.buffer_donor = true, tf.aliasing_output = 0 : i32},
      %x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<f32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %eighth = stablehlo.constant dense<0.125> : tensor<f32>
    %rate = stablehlo.constant dense<0.0625> : tensor<f32>
    %wide = stablehlo.broadcast_in_dim %w, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %product = stablehlo.multiply %wide, %x : tensor<8xf32>
    %error = stablehlo.subtract %product, %y : tensor<8xf32>
    %square = stablehlo.multiply %error, %error : tensor<8xf32>
    %sum = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %loss = stablehlo.multiply %sum, %eighth : tensor<f32>
    %slope = stablehlo.multiply %error, %x : tensor<8xf32>
    %slopes = stablehlo.reduce(%slope init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %move = stablehlo.multiply %slopes, %rate : tensor<f32>
    %next = stablehlo.subtract %w, %move : tensor<f32>
    return %next, %loss : tensor<f32>, tensor<f32>
  }
}
