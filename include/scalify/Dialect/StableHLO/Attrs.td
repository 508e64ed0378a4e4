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

// Printed as `[0, 1]`.
def StableHLO_DimsField : ArrayRefParameter<"int64_t", "dimensions"> {
  let parser = "::scalify::stablehlo::parseDims($_parser)";
  let printer = "::scalify::stablehlo::printDims($_printer, $_self)";
}

// An attribute's field, left out where it is empty or zero.
def StableHLO_OptionalDims : OptionalArrayRefParameter<"int64_t"> {
  let parser = StableHLO_DimsField.parser;
  let printer = StableHLO_DimsField.printer;
}
def StableHLO_OptionalInt : DefaultValuedParameter<"int64_t", "0">;
def StableHLO_Tolerance : APFloatParameter<"tolerance"> {
  let defaultValue = "::llvm::APFloat(0.0)";
  let parser = "parseTolerance($_parser)";
  let printer = "$_printer.printFloat($_self)";
}

def StableHLO_AccuracyModeField
    : AttrParameter<"::scalify::stablehlo::ResultAccuracyModeAttr", "mode"> {
  let printer = "$_printer.printAttribute($_self)";
}

// An attribute with fields in any order, `<a = [0], b = 2>`.
class StableHLO_FieldsAttr<string cppName, string attrMnemonic>
    : StableHLO_Attr<cppName, attrMnemonic> {
  let assemblyFormat = "`<` struct(params) `>`";
}

def StableHLO_DotDimensionNumbersAttr
    : StableHLO_FieldsAttr<"DotDimensionNumbers", "dot"> {
  let summary = "batch and contracting dimensions of a dot";
  let parameters = (ins
    StableHLO_OptionalDims:$lhs_batching_dimensions,
    StableHLO_OptionalDims:$rhs_batching_dimensions,
    StableHLO_OptionalDims:$lhs_contracting_dimensions,
    StableHLO_OptionalDims:$rhs_contracting_dimensions);
}

def StableHLO_DotAlgorithmAttr
    : StableHLO_FieldsAttr<"DotAlgorithm", "dot_algorithm"> {
  let summary = "the precise arithmetic required of a dot_general";
  let parameters = (ins
    "::mlir::Type":$lhs_precision_type,
    "::mlir::Type":$rhs_precision_type,
    "::mlir::Type":$accumulation_type,
    "int64_t":$lhs_component_count,
    "int64_t":$rhs_component_count,
    "int64_t":$num_primitive_operations,
    "bool":$allow_imprecise_accumulation);
}

def StableHLO_GatherDimensionNumbersAttr
    : StableHLO_FieldsAttr<"GatherDimensionNumbers", "gather"> {
  let summary = "correspondence of a gather's dimensions";
  let parameters = (ins
    StableHLO_OptionalDims:$offset_dims,
    StableHLO_OptionalDims:$collapsed_slice_dims,
    StableHLO_OptionalDims:$operand_batching_dims,
    StableHLO_OptionalDims:$start_indices_batching_dims,
    StableHLO_OptionalDims:$start_index_map,
    StableHLO_OptionalInt:$index_vector_dim);
}

def StableHLO_ScatterDimensionNumbersAttr
    : StableHLO_FieldsAttr<"ScatterDimensionNumbers", "scatter"> {
  let summary = "correspondence of a scatter's dimensions";
  let parameters = (ins
    StableHLO_OptionalDims:$update_window_dims,
    StableHLO_OptionalDims:$inserted_window_dims,
    StableHLO_OptionalDims:$input_batching_dims,
    StableHLO_OptionalDims:$scatter_indices_batching_dims,
    StableHLO_OptionalDims:$scatter_dims_to_operand_dims,
    StableHLO_OptionalInt:$index_vector_dim);
}

def StableHLO_ResultAccuracyAttr
    : StableHLO_FieldsAttr<"ResultAccuracy", "result_accuracy"> {
  let summary = "accuracy required of a transcendental function";
  let parameters = (ins
    StableHLO_Tolerance:$atol,
    StableHLO_Tolerance:$rtol,
    StableHLO_OptionalInt:$ulps,
    StableHLO_AccuracyModeField:$mode);
  let extraClassDeclaration = [{
    /// No tolerance and mode DEFAULT: the meaning of an op without the
    /// attribute.
    static ResultAccuracyAttr getDefault(::mlir::MLIRContext *context);
  }];
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
    : StableHLO_FieldsAttr<"ChannelHandle", "channel_handle"> {
  let summary = "identifies a channel between devices";
  let parameters = (ins "int64_t":$handle, "int64_t":$type);
}

def StableHLO_OutputOperandAliasAttr
    : StableHLO_FieldsAttr<"OutputOperandAlias", "output_operand_alias"> {
  let summary = "an output of a custom call that aliases an operand";
  let parameters = (ins StableHLO_DimsField:$output_tuple_indices,
                        "int64_t":$operand_index,
                        StableHLO_DimsField:$operand_tuple_indices);
}

def StableHLO_BoundsAttr : StableHLO_Attr<"TypeExtensions", "bounds"> {
  let summary = "upper bounds of dynamic dimensions, as a tensor's encoding";
  let parameters = (ins StableHLO_Dims:$bounds);
  let hasCustomAssemblyFormat = 1;
}

#endif // SCALIFY_DIALECT_STABLEHLO_ATTRS
