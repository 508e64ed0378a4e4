//===- Call.td - Calls, tokens, tuples and input/output ----*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_CALL
#define SCALIFY_DIALECT_STABLEHLO_CALL

include "mlir/IR/SymbolInterfaces.td"
include "scalify/Dialect/StableHLO/Base.td"

def StableHLO_FunctionArrayAttr
    : TypedArrayAttrBase<FlatSymbolRefAttr, "names of functions"> {
  let constBuilderCall = "$_builder.getArrayAttr($0)";
}
def StableHLO_AliasArrayAttr
    : TypedArrayAttrBase<StableHLO_OutputOperandAliasAttr,
                         "aliases of outputs and operands"> {
  let constBuilderCall = "$_builder.getArrayAttr($0)";
}

def StableHLO_CustomCallOp : StableHLO_Op<"custom_call", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "call code unknown to the compiler";
  let arguments = (ins
    Variadic<StableHLO_TensorTokenOrTuple>:$inputs,
    StrAttr:$call_target_name,
    DefaultValuedOptionalAttr<BoolAttr, "false">:$has_side_effect,
    OptionalAttr<AnyAttrOf<[StrAttr, DictionaryAttr]>>:$backend_config,
    DefaultValuedOptionalAttr<StableHLO_CustomCallApiVersionAttr,
        "::scalify::stablehlo::CustomCallApiVersion::API_VERSION_ORIGINAL"
        >:$api_version,
    DefaultValuedOptionalAttr<StableHLO_FunctionArrayAttr, "{}">:
        $called_computations,
    OptionalAttr<ArrayAttr>:$operand_layouts,
    OptionalAttr<ArrayAttr>:$result_layouts,
    DefaultValuedOptionalAttr<StableHLO_AliasArrayAttr, "{}">:
        $output_operand_aliases);
  let results = (outs Variadic<StableHLO_TensorTokenOrTuple>);
  let assemblyFormat = [{
    custom<CustomCallTarget>($call_target_name) `(` $inputs `)`
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def StableHLO_CompositeOp : StableHLO_Op<"composite", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "name a computation that a function of other ops decomposes";
  let arguments = (ins
    Variadic<StableHLO_TensorTokenOrTuple>:$inputs,
    StrAttr:$name,
    DefaultValuedOptionalAttr<DictionaryAttr, "{}">:$composite_attributes,
    FlatSymbolRefAttr:$decomposition,
    DefaultValuedOptionalAttr<I32Attr, "0">:$version);
  let regions = (region VariadicRegion<AnyRegion>:$composite_regions);
  let results = (outs Variadic<StableHLO_TensorTokenOrTuple>);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def StableHLO_AfterAllOp : StableHLO_PureOp<"after_all"> {
  let summary = "make a token that comes after all operands";
  let arguments = (ins Variadic<StableHLO_Token>:$inputs);
  let results = (outs StableHLO_Token:$result);
  let assemblyFormat = [{
    $inputs attr-dict `:`
    custom<VariadicSameOperandsAndResultType>(ref($inputs), type($inputs),
                                              type($result))
  }];
}

def StableHLO_CreateTokenOp : StableHLO_PureOp<"create_token"> {
  let summary = "make a token that comes before everything";
  let results = (outs StableHLO_Token:$output);
  let assemblyFormat = "attr-dict `:` type(results)";
}

def StableHLO_SendOp : StableHLO_Op<"send"> {
  let summary = "send tensors over a channel";
  let arguments = (ins
    Variadic<StableHLO_Tensor>:$inputs, StableHLO_Token:$token,
    StableHLO_ChannelHandleAttr:$channel_handle,
    DefaultValuedOptionalAttr<BoolAttr, "false">:$is_host_transfer,
    OptionalAttr<I64ElementsAttr>:$source_target_pairs);
  let results = (outs StableHLO_Token:$result);
  let hasVerifier = 1;
}

def StableHLO_RecvOp : StableHLO_Op<"recv"> {
  let summary = "receive tensors from a channel";
  let arguments = (ins
    StableHLO_Token:$token, StableHLO_ChannelHandleAttr:$channel_handle,
    DefaultValuedOptionalAttr<BoolAttr, "false">:$is_host_transfer,
    OptionalAttr<I64ElementsAttr>:$source_target_pairs);
  let results = (outs Variadic<StableHLO_TensorOrToken>);
  let hasVerifier = 1;
}

def StableHLO_InfeedOp : StableHLO_Op<"infeed"> {
  let summary = "read tensors from the host";
  let arguments = (ins StableHLO_Token:$token,
                       DefaultValuedOptionalStrAttr<StrAttr, "">:$infeed_config,
                       OptionalAttr<ArrayAttr>:$layout);
  let results = (outs Variadic<StableHLO_TensorOrToken>);
  let hasVerifier = 1;
}

def StableHLO_OutfeedOp : StableHLO_Op<"outfeed"> {
  let summary = "write tensors to the host";
  let arguments = (ins Variadic<StableHLO_Tensor>:$inputs,
                       StableHLO_Token:$token,
                       DefaultValuedOptionalStrAttr<StrAttr, "">:
                           $outfeed_config);
  let results = (outs StableHLO_Token:$result);
}

def StableHLO_TupleOp : StableHLO_PureOp<"tuple"> {
  let summary = "make a tuple of values";
  let arguments = (ins Variadic<StableHLO_TensorTokenOrTuple>:$val);
  let results = (outs AnyTuple:$result);
  let assemblyFormat = [{
    $val attr-dict `:` custom<TupleOpType>(type($val), type($result))
  }];
  let hasVerifier = 1;
}

def StableHLO_GetTupleElementOp : StableHLO_PureOp<"get_tuple_element"> {
  let summary = "take an element of a tuple";
  let arguments = (ins AnyTuple:$operand,
                       ConfinedAttr<I32Attr, [IntNonNegative]>:$index);
  let results = (outs StableHLO_TensorTokenOrTuple:$result);
  let assemblyFormat = [{
    $operand `[` $index `]` attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // SCALIFY_DIALECT_STABLEHLO_CALL
