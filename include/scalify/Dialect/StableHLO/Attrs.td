//===- Attrs.td - Attributes of the stablehlo dialect ------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_ATTRS
#define SCALIFY_DIALECT_STABLEHLO_ATTRS

include "mlir/IR/AttrTypeBase.td"
include "scalify/Dialect/StableHLO/Enums.td"

class StableHLO_Attr<string cppName, string attrMnemonic>
    : AttrDef<StableHLO_Dialect, cppName> {
  let mnemonic = attrMnemonic;
}

def StableHLO_Dims : ArrayRefParameter<"int64_t", "dimensions">;

def StableHLO_DotDimensionNumbersAttr
    : StableHLO_Attr<"DotDimensionNumbers", "dot"> {
  let summary = "batch and contracting dimensions of a dot";
  let parameters = (ins
    StableHLO_Dims:$lhsBatchingDimensions,
    StableHLO_Dims:$rhsBatchingDimensions,
    StableHLO_Dims:$lhsContractingDimensions,
    StableHLO_Dims:$rhsContractingDimensions);
  let hasCustomAssemblyFormat = 1;
}

def StableHLO_DotAlgorithmAttr
    : StableHLO_Attr<"DotAlgorithm", "dot_algorithm"> {
  let summary = "the precise arithmetic required of a dot_general";
  let parameters = (ins
    "::mlir::Type":$lhsPrecisionType,
    "::mlir::Type":$rhsPrecisionType,
    "::mlir::Type":$accumulationType,
    "int64_t":$lhsComponentCount,
    "int64_t":$rhsComponentCount,
    "int64_t":$numPrimitiveOperations,
    "bool":$allowImpreciseAccumulation);
  let hasCustomAssemblyFormat = 1;
}

def StableHLO_GatherDimensionNumbersAttr
    : StableHLO_Attr<"GatherDimensionNumbers", "gather"> {
  let summary = "correspondence of a gather's dimensions";
  let parameters = (ins
    StableHLO_Dims:$offsetDims,
    StableHLO_Dims:$collapsedSliceDims,
    StableHLO_Dims:$operandBatchingDims,
    StableHLO_Dims:$startIndicesBatchingDims,
    StableHLO_Dims:$startIndexMap,
    "int64_t":$indexVectorDim);
  let hasCustomAssemblyFormat = 1;
}

def StableHLO_ScatterDimensionNumbersAttr
    : StableHLO_Attr<"ScatterDimensionNumbers", "scatter"> {
  let summary = "correspondence of a scatter's dimensions";
  let parameters = (ins
    StableHLO_Dims:$updateWindowDims,
    StableHLO_Dims:$insertedWindowDims,
    StableHLO_Dims:$inputBatchingDims,
    StableHLO_Dims:$scatterIndicesBatchingDims,
    StableHLO_Dims:$scatterDimsToOperandDims,
    "int64_t":$indexVectorDim);
  let hasCustomAssemblyFormat = 1;
}

def StableHLO_ResultAccuracyAttr
    : StableHLO_Attr<"ResultAccuracy", "result_accuracy"> {
  let summary = "accuracy required of a transcendental function";
  let parameters = (ins
    APFloatParameter<"absolute tolerance">:$atol,
    APFloatParameter<"relative tolerance">:$rtol,
    "int64_t":$ulps,
    "::scalify::stablehlo::ResultAccuracyModeAttr":$mode);
  let extraClassDeclaration = [{
    /// No tolerance and mode DEFAULT: the meaning of an op without the
    /// attribute.
    static ResultAccuracyAttr getDefault(::mlir::MLIRContext *context);
  }];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let constBuilderCall = "::scalify::stablehlo::ResultAccuracyAttr::getDefault("
                         "$_builder.getContext())";
}

def StableHLO_ConvDimensionNumbersAttr
    : StableHLO_Attr<"ConvDimensionNumbers", "conv"> {
  let summary = "roles of the dimensions of a convolution's tensors";
  let parameters = (ins
    "int64_t":$inputBatchDimension,
    "int64_t":$inputFeatureDimension,
    StableHLO_Dims:$inputSpatialDimensions,
    "int64_t":$kernelInputFeatureDimension,
    "int64_t":$kernelOutputFeatureDimension,
    StableHLO_Dims:$kernelSpatialDimensions,
    "int64_t":$outputBatchDimension,
    "int64_t":$outputFeatureDimension,
    StableHLO_Dims:$outputSpatialDimensions);
  let extraClassDeclaration = [{
    /// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`, without angle brackets.
    static ConvDimensionNumbersAttr parseBody(::mlir::AsmParser &parser);
    void printBody(::mlir::AsmPrinter &printer) const;
  }];
  let hasCustomAssemblyFormat = 1;
}

def StableHLO_ChannelHandleAttr
    : StableHLO_Attr<"ChannelHandle", "channel_handle"> {
  let summary = "identifies a channel between devices";
  let parameters = (ins "int64_t":$handle, "int64_t":$type);
  let assemblyFormat = "`<` struct(params) `>`";
}

def StableHLO_OutputOperandAliasAttr
    : StableHLO_Attr<"OutputOperandAlias", "output_operand_alias"> {
  let summary = "an output of a custom call that aliases an operand";
  let parameters = (ins StableHLO_Dims:$outputTupleIndices,
                        "int64_t":$operandIndex,
                        StableHLO_Dims:$operandTupleIndices);
  let hasCustomAssemblyFormat = 1;
}

def StableHLO_BoundsAttr : StableHLO_Attr<"TypeExtensions", "bounds"> {
  let summary = "upper bounds of dynamic dimensions, as a tensor's encoding";
  let parameters = (ins StableHLO_Dims:$bounds);
  let hasCustomAssemblyFormat = 1;
}

#endif // SCALIFY_DIALECT_STABLEHLO_ATTRS
