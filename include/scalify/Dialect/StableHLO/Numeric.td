//===- Numeric.td - Random numbers, transforms, solvers ----*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_NUMERIC
#define SCALIFY_DIALECT_STABLEHLO_NUMERIC

include "scalify/Dialect/StableHLO/Base.td"

def StableHLO_RngBitGeneratorOp : StableHLO_PureOp<"rng_bit_generator"> {
  let summary = "generate random bits and the next state";
  let arguments = (ins StableHLO_RngAlgorithmAttr:$rng_algorithm,
                       StableHLO_Tensor:$initial_state);
  let results = (outs StableHLO_Tensor:$output_state,
                      StableHLO_Tensor:$output);
  let assemblyFormat = [{
    $initial_state `,` `algorithm` `=` `` $rng_algorithm attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_RngOp : StableHLO_Op<"rng"> {
  let summary = "generate random numbers of a distribution";
  let arguments = (ins StableHLO_Tensor:$a, StableHLO_Tensor:$b,
                       StableHLO_IntTensor:$shape,
                       StableHLO_RngDistributionAttr:$rng_distribution);
  let results = (outs StableHLO_Tensor:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $shape `,` `distribution` `=` `` $rng_distribution attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_FftOp : StableHLO_PureOp<"fft"> {
  let summary = "take the discrete Fourier transform of the last dimensions";
  let arguments = (ins StableHLO_FloatOrComplexTensor:$operand,
                       StableHLO_FftTypeAttr:$fft_type,
                       DenseI64ArrayAttr:$fft_length);
  let results = (outs StableHLO_FloatOrComplexTensor:$result);
  let assemblyFormat = [{
    $operand `,` `type` `=` `` $fft_type `,` `length` `=` $fft_length attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_CholeskyOp
    : StableHLO_PureOp<"cholesky", [SameOperandsAndResultType]> {
  let summary = "compute Cholesky factors of positive definite matrices";
  let arguments = (ins StableHLO_FloatOrComplexTensor:$a,
                       DefaultValuedOptionalAttr<BoolAttr, "false">:$lower);
  let results = (outs StableHLO_FloatOrComplexTensor:$result);
  let assemblyFormat = [{
    $a (`,` `lower` `=` $lower^)? attr-dict `:`
    custom<SameOperandsAndResultType>(type($a), type($result))
  }];
  let hasVerifier = 1;
}

def StableHLO_TriangularSolveOp : StableHLO_PureOp<"triangular_solve", [
    SameOperandsAndResultElementType]> {
  let summary = "solve systems of equations with triangular matrices";
  let arguments = (ins StableHLO_FloatOrComplexTensor:$a,
                       StableHLO_FloatOrComplexTensor:$b, BoolAttr:$left_side,
                       BoolAttr:$lower, BoolAttr:$unit_diagonal,
                       StableHLO_TransposeAttr:$transpose_a);
  let results = (outs StableHLO_FloatOrComplexTensor:$result);
  let hasVerifier = 1;
}

class StableHLO_BatchNormOp<string mnemonic>
    : StableHLO_PureOp<mnemonic, [SameOperandsAndResultElementType]> {
  let hasVerifier = 1;
}

def StableHLO_BatchNormTrainingOp
    : StableHLO_BatchNormOp<"batch_norm_training"> {
  let summary = "normalise over all dimensions but one";
  let arguments = (ins StableHLO_FloatTensor:$operand,
                       StableHLO_FloatTensor:$scale,
                       StableHLO_FloatTensor:$offset, F32Attr:$epsilon,
                       StableHLO_NonNegativeI64:$feature_index);
  let results = (outs StableHLO_FloatTensor:$output,
                      StableHLO_FloatTensor:$batch_mean,
                      StableHLO_FloatTensor:$batch_var);
}

def StableHLO_BatchNormInferenceOp
    : StableHLO_BatchNormOp<"batch_norm_inference"> {
  let summary = "normalise with given statistics";
  let arguments = (ins StableHLO_FloatTensor:$operand,
                       StableHLO_FloatTensor:$scale,
                       StableHLO_FloatTensor:$offset,
                       StableHLO_FloatTensor:$mean,
                       StableHLO_FloatTensor:$variance, F32Attr:$epsilon,
                       StableHLO_NonNegativeI64:$feature_index);
  let results = (outs StableHLO_FloatTensor:$result);
}

def StableHLO_BatchNormGradOp : StableHLO_BatchNormOp<"batch_norm_grad"> {
  let summary = "compute the gradients of batch_norm_training";
  let arguments = (ins StableHLO_FloatTensor:$operand,
                       StableHLO_FloatTensor:$scale,
                       StableHLO_FloatTensor:$mean,
                       StableHLO_FloatTensor:$variance,
                       StableHLO_FloatTensor:$grad_output, F32Attr:$epsilon,
                       StableHLO_NonNegativeI64:$feature_index);
  let results = (outs StableHLO_FloatTensor:$grad_operand,
                      StableHLO_FloatTensor:$grad_scale,
                      StableHLO_FloatTensor:$grad_offset);
}

#endif // SCALIFY_DIALECT_STABLEHLO_NUMERIC
