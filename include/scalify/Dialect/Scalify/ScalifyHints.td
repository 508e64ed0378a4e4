//===- ScalifyHints.td - Scales from the user and the step -*- tablegen -*-===//

#ifndef SCALIFY_HINTS_TD
#define SCALIFY_HINTS_TD

include "scalify/Dialect/Scalify/ScalifyOps.td"

def OverrideScaleOp : Scalify_Op<"override_scale", [AllTypesMatch<["value", "result"]>]> {
  let summary = "set the scale of a value";
  let description = [{
    The identity on true values, in the normal form. From here on the value
    propagates with the scale `scale`, rounded down to a power of two, instead
    of the scale from the rules. A scale known only at run time reaches the
    casts as a run-time value.

    ```mlir
    %y = scalify.override_scale %x, %s : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Scalify_WideTensor:$value, Scalify_ScalarScale:$scale);
  let results = (outs Scalify_WideTensor:$result);
  let assemblyFormat = "$value `,` $scale attr-dict `:` type($value)";
}

def RescalePointOp : Scalify_Op<"rescale_point",
    [AllTypesMatch<["value", "result"]>]> {
  let summary = "mark a value whose scale the step measures";
  let description = [{
    The identity: marks where the step measures a scale.
    `scalify-apply-rescales` converts it to a `scalify.measured_scale`, which
    the casts downstream multiply into their scales. `by` is its origin: `user`,
    or the rule of `scalify-place-rescales`.

    With `axes` the statistic reduces these dimensions only, and each index of
    the others, a row, has its own scale.

    ```mlir
    %y = scalify.rescale_point l2 %x {by = "user"} : tensor<4x8xf32>
    %z = scalify.rescale_point max %x {axes = array<i64: 1>} : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Scalify_StatisticAttr:$statistic,
                       Scalify_WideTensor:$value,
                       DefaultValuedOptionalAttr<StrAttr, "\"user\"">:$by,
                       DefaultValuedOptionalAttr<I64Attr, "1">:$sample,
                       OptionalAttr<DenseI64ArrayAttr>:$axes);
  let results = (outs Scalify_WideTensor:$result);
  let assemblyFormat = "$statistic $value attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def DataScaleOp : Scalify_Op<"data_scale", [AllTypesMatch<["value", "data"]>]> {
  let summary = "split a value into data and scale";
  let description = [{
    `data * scale` is the value; the scale is the propagated one.

    ```mlir
    %d, %s = scalify.data_scale %x : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Scalify_WideTensor:$value);
  let results = (outs Scalify_WideTensor:$data, Scalify_ScalarScale:$scale);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def MeasuredScaleOp : Scalify_Op<"measured_scale"> {
  let summary = "measure the scale of a true value by its statistic";
  let description = [{
    Let n be the statistic of `value / base`, rounded down to a power of two and
    at least 2^-14. The result is `base * n`, or `base` for a value that is all
    zero or not finite. It reads every `sample`-th row of the value once, and
    writes nothing.

    ```mlir
    %t = scalify.measured_scale l2 %x, %s : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Scalify_StatisticAttr:$statistic,
                       Scalify_WideTensor:$value, Scalify_ScalarScale:$base,
                       DefaultValuedOptionalAttr<I64Attr, "1">:$sample);
  let results = (outs Scalify_ScalarScale:$result);
  let assemblyFormat = "$statistic $value `,` $base attr-dict `:` type($value)";
}

def MeasuredRowScalesOp : Scalify_Op<"measured_row_scales"> {
  let summary = "measure the scales of a true value's rows by their statistics";
  let description = [{
    Like `scalify.measured_scale`, with a statistic over `axes` for each index
    of the other dimensions. The result has the value's shape, with 1 for
    `axes`.

    ```mlir
    %t = scalify.measured_row_scales l2 %x, %s over [1] : tensor<4x8xf32> -> tensor<4x1xf32>
    ```
  }];
  let arguments = (ins Scalify_StatisticAttr:$statistic,
                       Scalify_WideTensor:$value, Scalify_ScalarScale:$base,
                       DenseI64ArrayAttr:$axes);
  let results = (outs Scalify_WideTensor:$result);
  let assemblyFormat = [{
    $statistic $value `,` $base `over` $axes attr-dict `:` type($value) `->`
    type($result)
  }];
  let hasVerifier = 1;
}

def SharedScaleOp : Scalify_Op<"shared_scale"> {
  let summary = "take the common scale of all ranks for one tensor";
  let description = [{
    Each entry is the scale by which one rank's tensor fits its format, or 0 if
    that tensor is all zero or not finite. The result is the largest entry over
    all ranks, or 1 if there is none. This is FP8-LM's minimum s_g = min_i s'_i,
    whose scaling factors are the inverses. On one device with one entry it is
    that entry, or 1.

    ```mlir
    %s = scalify.shared_scale %scales : tensor<4xf32>
    ```
  }];
  let arguments = (ins 1DTensorOf<[F32]>:$scales);
  let results = (outs Scalify_ScalarScale:$result);
  let assemblyFormat = "$scales attr-dict `:` type($scales)";
}

def RoundScaleOp : Scalify_Op<"round_scale"> {
  let summary = "round a run-time scale down to a power of two";
  let description = [{
    1 unless the operand is a positive number from 2^-100 to 2^100.

    ```mlir
    %t = scalify.round_scale %s
    ```
  }];
  let arguments = (ins Scalify_ScalarScale:$scale);
  let results = (outs Scalify_ScalarScale:$result);
  let assemblyFormat = "$scale attr-dict";
}

#endif // SCALIFY_HINTS_TD
