//===- ScalifyHints.td - Scales from the user and the step -*- tablegen -*-===//

#ifndef SCALIFY_HINTS_TD
#define SCALIFY_HINTS_TD

include "scalify/Dialect/Scalify/ScalifyOps.td"

def OverrideScaleOp : Scalify_Op<"override_scale", [AllTypesMatch<["value", "result"]>]> {
  let summary = "a value whose scale the user sets";
  let description = [{
    The identity on true values, in the normal form. From here on the value
    propagates with the scale `scale`, rounded down to a power of two, instead
    of the one that the rules gave; known at run time, it flows to the casts as
    a run-time value.

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
  let summary = "a value whose scale the step measures";
  let description = [{
    The identity: marks where the step measures a scale.
    `scalify-apply-rescales` makes a
    `scalify.measured_scale` of it, which the casts downstream multiply into
    their scales. `by` says who put it there: `user`, or the rule of
    `scalify-place-rescales`.

    With `axes` the statistic runs over these alone, and each index of the
    others, a row, has a scale of its own.

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
  let summary = "data and scale of a value, as true values";
  let description = [{
    `data * scale` is the value; the scale is the one that propagation gave.

    ```mlir
    %d, %s = scalify.data_scale %x : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Scalify_WideTensor:$value);
  let results = (outs Scalify_WideTensor:$data, Scalify_ScalarScale:$scale);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def MeasuredScaleOp : Scalify_Op<"measured_scale"> {
  let summary = "the scale of a true value by a statistic of it";
  let description = [{
    With n = the statistic of `value / base`, rounded down to a power of two
    and at least 2^-14: the result is `base * n`. It is `base` for a value that
    is all zero or not finite. One read of every `sample`-th row of the value,
    and no write.

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
  let summary = "the scales of the rows of a true value by a statistic of each";
  let description = [{
    As `scalify.measured_scale`, with a statistic over `axes` for each index of
    the other dimensions. The result has the value's shape, with 1 for `axes`.

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
  let summary = "the scale on which all ranks agree for one tensor";
  let description = [{
    Each entry is the scale by which the tensor of one rank fits its format, 0
    for a rank that has no say: its tensor is all zero, or not finite. The result
    is the largest of them over all ranks, and 1 if there is none. It is
    FP8-LM's minimum s_g = min_i s'_i, whose scaling factors are the inverses.
    On one device with one entry it is that entry, or 1.

    ```mlir
    %s = scalify.shared_scale %scales : tensor<4xf32>
    ```
  }];
  let arguments = (ins 1DTensorOf<[F32]>:$scales);
  let results = (outs Scalify_ScalarScale:$result);
  let assemblyFormat = "$scales attr-dict `:` type($scales)";
}

def RoundScaleOp : Scalify_Op<"round_scale"> {
  let summary = "a run-time scale rounded down to a power of two";
  let description = [{
    1 where the operand is no positive number from 2^-100 to 2^100.

    ```mlir
    %t = scalify.round_scale %s
    ```
  }];
  let arguments = (ins Scalify_ScalarScale:$scale);
  let results = (outs Scalify_ScalarScale:$result);
  let assemblyFormat = "$scale attr-dict";
}

#endif // SCALIFY_HINTS_TD
