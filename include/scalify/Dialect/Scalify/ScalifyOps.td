//===- ScalifyOps.td - Scales, casts and random words ------*- tablegen -*-===//

#ifndef SCALIFY_OPS_TD
#define SCALIFY_OPS_TD

include "scalify/Dialect/Scalify/ScalifyAttrs.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "scalify/Dialect/StableHLO/DataMovement.td"

class Scalify_Op<string mnemonic, list<Trait> traits = []>
    : Op<Scalify_Dialect, mnemonic, traits # [Pure]>;

def Scalify_WideTensor : RankedTensorOf<[F32, F16, BF16]>;
def Scalify_NarrowTensor : RankedTensorOf<[F8E4M3FN, F8E5M2, F16, BF16]>;
def Scalify_Scale : RankedTensorOf<[F32]>;
def Scalify_ScalarScale
    : Type<0DTensorOf<[F32]>.predicate, "rank-0 tensor of f32",
           "::mlir::RankedTensorType">,
      BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getF32Type())">;

def Scalify_Key
    : Type<And<[1DTensorOf<[UI32]>.predicate, HasStaticShapePred,
                CPred<"::llvm::cast<::mlir::ShapedType>($_self).getShape()[0] == 2">]>,
           "two ui32: the seed and the step", "::mlir::RankedTensorType">,
      BuildableType<"::mlir::RankedTensorType::get({2}, $_builder.getIntegerType(32, /*isSigned=*/false))">;
def Scalify_Word
    : Type<0DTensorOf<[I32]>.predicate, "rank-0 tensor of i32",
           "::mlir::RankedTensorType">,
      BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI32Type())">;

def ScaleHintOp : Scalify_Op<"scale_hint", [
    AllTypesMatch<["value", "result"]>, Moves<"Cast">]> {
  let summary = "mark a value with its scale, for a cast";
  let description = [{
    The identity on true values. It marks a value that may use a narrow format,
    with the scale from the rules; `scalify-quantize` converts it to a cast or
    removes it.

    ```mlir
    %y = scalify.scale_hint %x, %s {rule = "dot: sqrt(K = 128)"} : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Scalify_WideTensor:$value, Scalify_ScalarScale:$scale,
                       OptionalAttr<StrAttr>:$rule);
  let results = (outs Scalify_WideTensor:$result);
  let assemblyFormat = "$value `,` $scale attr-dict `:` type($value)";
}

def QuantizeOp
    : Scalify_Op<"quantize", [AttrSizedOperandSegments, Moves<"Cast">]> {
  let summary = "cast value / scale to a narrow format, saturating and counted";
  let description = [{
    The result represents `result * scale`. Rounding is to nearest, ties to
    even. Finite magnitudes beyond the format's largest finite value saturate.
    An infinity becomes NaN in FP8 and stays one in other formats, so that a
    program's checks of finite values still see it; NaN stays NaN. Under the
    name `cast` the executable counts the values that would have rounded beyond
    the largest finite one (saturated), the non-zero values that became zero
    (flushed), zeros, and NaNs, infinities among them.

    With `rounding = #scalify.rounding<stochastic>` a value between two
    neighbours of the format rounds up with a probability equal to its relative
    distance from the lower neighbour, so that the mean is the value. Values of
    the format are unchanged. Saturation, NaN, signs and counts are as above.
    The random words are those of `scalify.random_bits` at `counter`, the seed
    and the step (from `scalify-count-steps`), with the low bit of `stream` as
    the word and the others as the stream. The scale must be a power of two. For
    a part of a tensor `first` and `whole` are as in `scalify.random_bits`, so
    that it rounds like that part of the whole.

    With `block`, one size for each dimension, every block has its own scale:
    the scale is a tensor of ceil(dimension / size) entries for each dimension,
    and the last block may be partial. A size of 0 spans its dimension: `block =
    array<i64: 1, 0>` is one scale per row.

    ```mlir
    %q = scalify.quantize %x, %s {cast = "dot_12.lhs"}
        : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
    %r = scalify.quantize %y, %t by tensor<4x2xf32> {block = array<i64: 1, 128>}
        : tensor<4x256xf32> -> tensor<4x256xf8E4M3FN>
    %p = scalify.quantize %w, %s at %step
        {rounding = #scalify.rounding<stochastic>, stream = 6 : i64}
        : tensor<4x8xf32> -> tensor<4x8xf16>
    %o = scalify.quantize %share, %s at %step from %first
        {rounding = #scalify.rounding<stochastic>, stream = 6 : i64}
        : tensor<8xf32> -> tensor<8xf16>
    ```
  }];
  let arguments = (ins Scalify_WideTensor:$value, Scalify_Scale:$scale,
                       Optional<Scalify_Key>:$counter,
                       Optional<Scalify_Word>:$first,
                       OptionalAttr<StrAttr>:$cast,
                       OptionalAttr<DenseI64ArrayAttr>:$block,
                       DefaultValuedAttr<Scalify_RoundingAttr,
                           "::scalify::RoundingMode::Nearest">:$rounding,
                       OptionalAttr<I64Attr>:$stream,
                       OptionalAttr<DenseI64ArrayAttr>:$whole);
  let results = (outs Scalify_NarrowTensor:$result);
  let extraClassDeclaration = [{
    bool isStochastic() { return getRounding() == RoundingMode::Stochastic; }
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$value,
                                 "::mlir::Value":$scale,
                                 "::mlir::StringAttr":$cast,
                                 CArg<"::mlir::DenseI64ArrayAttr", "{}">:$block), [{
    build($_builder, $_state, result, value, scale, /*counter=*/nullptr,
          /*first=*/nullptr, cast, block, RoundingMode::Nearest,
          /*stream=*/nullptr, /*whole=*/nullptr);
  }]>];
  let assemblyFormat = [{
    $value `,` $scale `` custom<ScaleType>(type($scale)) (`at` $counter^)?
    (`from` $first^)? attr-dict `:` type($value) `->` type($result)
  }];
  let hasVerifier = 1;
}

def RandomBitsOp : Scalify_Op<"random_bits"> {
  let summary = "compute a random word for each element, from its index";
  let description = [{
    Threefry-2x32 with 20 rounds, as in JAX: the key is (seed, step), the
    counter (stream, index of the element in row-major order, modulo 2^32), and
    `word` 0 or 1 selects one of the block's two words. The result depends on
    nothing else, so not on the order of computation.

    The result may be a part of a larger tensor and have its words. Then `first`
    is the index of the part's first element in the whole, and `whole` the
    whole's shape, with as many dimensions as the part; without `whole`, the
    part is a contiguous run of the whole's elements. An element's index is
    `first`, or 0 without it, plus its row-major index in a tensor of the shape
    `whole`.

    ```mlir
    %r = scalify.random_bits 0 of %key, %stream : tensor<4x8xi32>
    // Columns 4 to 7 of them, where %four is 4.
    %p = scalify.random_bits 0 of %key, %stream from %four {whole = array<i64: 4, 8>} : tensor<4x4xi32>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<1>]>:$word,
                       Scalify_Key:$key, Scalify_Word:$stream,
                       Optional<Scalify_Word>:$first,
                       OptionalAttr<DenseI64ArrayAttr>:$whole);
  let results = (outs RankedTensorOf<[I32]>:$result);
  let assemblyFormat = [{
    $word `of` $key `,` $stream (`from` $first^)? attr-dict `:` type($result)
  }];
  let extraClassDeclaration = [{
    /// The shape for row-major indices of elements.
    ::llvm::ArrayRef<int64_t> getPlaces() {
      return getWhole().value_or(
          ::llvm::cast<::mlir::RankedTensorType>(getType()).getShape());
    }
  }];
  let hasVerifier = 1;
}

def DequantizeOp : Scalify_Op<"dequantize", [Moves<"Cast">]> {
  let summary = "compute the wide value data * scale from narrow data";
  let description = [{
    Exact if scales are powers of two. `block` is as in `scalify.quantize`.

    ```mlir
    %y = scalify.dequantize %q, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Scalify_NarrowTensor:$data, Scalify_Scale:$scale,
                       OptionalAttr<DenseI64ArrayAttr>:$block);
  let results = (outs Scalify_WideTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$data,
                                 "::mlir::Value":$scale), [{
    build($_builder, $_state, result, data, scale, nullptr);
  }]>];
  let assemblyFormat = [{
    $data `,` $scale `` custom<ScaleType>(type($scale)) attr-dict `:`
    type($data) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // SCALIFY_OPS_TD
