//===- Convolution.td - Convolutions -----------------------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_CONVOLUTION
#define SCALIFY_DIALECT_STABLEHLO_CONVOLUTION

include "scalify/Dialect/StableHLO/Base.td"

defvar StableHLO_ConvolutionAttrs = (ins
  OptionalAttr<DenseI64ArrayAttr>:$window_strides,
  OptionalAttr<I64ElementsAttr>:$padding,
  OptionalAttr<DenseI64ArrayAttr>:$lhs_dilation,
  OptionalAttr<DenseI64ArrayAttr>:$rhs_dilation,
  OptionalAttr<DenseBoolArrayAttr>:$window_reversal,
  StableHLO_ConvDimensionNumbersAttr:$dimension_numbers,
  ConfinedAttr<I64Attr, [IntPositive]>:$feature_group_count,
  ConfinedAttr<I64Attr, [IntPositive]>:$batch_group_count,
  OptionalAttr<StableHLO_PrecisionConfigAttr>:$precision_config);

def StableHLO_ConvolutionOp : StableHLO_PureOp<"convolution"> {
  let summary = "compute dot products between windows and a kernel";
  let arguments = !con((ins StableHLO_Tensor:$lhs, StableHLO_Tensor:$rhs),
                       StableHLO_ConvolutionAttrs);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    `(` operands `)` `dim_numbers` `=`
    custom<ConvolutionDimensions>($dimension_numbers) `,` `window` `=` `{`
    custom<WindowAttributes>($window_strides, $padding, $lhs_dilation,
                             $rhs_dilation, $window_reversal) `}`
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_DynamicConvOp : StableHLO_PureOp<"dynamic_conv"> {
  let summary = "convolve with padding that is known at run time";
  let arguments = !con((ins StableHLO_Tensor:$lhs, StableHLO_Tensor:$rhs,
                            StableHLO_IntTensor:$d_padding),
                       StableHLO_ConvolutionAttrs);
  let results = (outs StableHLO_Tensor:$result);
  let hasVerifier = 1;
}

#endif // SCALIFY_DIALECT_STABLEHLO_CONVOLUTION
