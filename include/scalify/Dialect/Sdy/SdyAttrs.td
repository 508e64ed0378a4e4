//===- SdyAttrs.td - Attributes of the sdy dialect ---------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_SDY_SDYATTRS
#define SCALIFY_DIALECT_SDY_SDYATTRS

include "mlir/IR/AttrTypeBase.td"
include "scalify/Dialect/Sdy/SdyDialect.td"

class Sdy_Attr<string cppName, string attrMnemonic, string format = "">
    : AttrDef<Sdy_Dialect, cppName> {
  let mnemonic = attrMnemonic;
  // Lists hold the text alone, without a space before it.
  let assemblyFormat = !if(!empty(format), ?, "`` " # format);
  let hasCustomAssemblyFormat = !empty(format);
}

// Elements between the delimiters of one of MLIR's AsmParser::Delimiter. The
// list may be empty.
class Sdy_List<string element, string delimiter, string brackets>
    : ArrayRefParameter<element> {
  let parser = "parseList<" # element #
               ">($_parser, ::mlir::AsmParser::Delimiter::" # delimiter # ")";
  let printer = "printList($_printer, $_self, \"" # brackets # "\")";
}
class Sdy_Braces<string element> : Sdy_List<element, "Braces", "{}">;
class Sdy_Square<string element> : Sdy_List<element, "Square", "[]">;

def Sdy_MeshAxisAttr
    : Sdy_Attr<"MeshAxis", "mesh_axis", "$name `` `=` `` $size"> {
  let summary = "a named axis of a mesh and its size, `\"x\"=4`";
  let parameters = (ins StringRefParameter<"name">:$name, "int64_t":$size);
}

def Sdy_OptionalIds : OptionalArrayRefParameter<"int64_t"> {
  let parser = Sdy_Square<"int64_t">.parser;
  let printer = Sdy_Square<"int64_t">.printer;
}

def Sdy_MeshAttr : Sdy_Attr<"Mesh", "mesh", [{
    `<` $axes (`,` `device_ids` `` `=` `` $deviceIds^)? `>`
  }]> {
  let summary = "axes of devices and, when not in order, the devices' ids";
  let parameters = (ins Sdy_Square<"MeshAxisAttr">:$axes,
                        Sdy_OptionalIds:$deviceIds);
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the size of the axis of that name, if there is one.
    std::optional<int64_t> getAxisSize(::llvm::StringRef name) const;
    /// Returns the number of devices: the product of all axes, or one device by
    /// id.
    int64_t getTotalSize() const;
    /// Checks that the mesh has the axes, and that sub-axes divide theirs.
    ::llvm::LogicalResult verifyAxes(
        ::llvm::ArrayRef<::scalify::sdy::AxisRefAttr> axes,
        ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError) const;
  }];
}

def Sdy_AxisRefAttr : Sdy_Attr<"AxisRef", "axis_ref"> {
  let summary = "an axis, or a sub-axis: `\"x\":(2)4` skips 2 and takes 4";
  let parameters = (ins StringRefParameter<"name">:$name,
                        DefaultValuedParameter<"int64_t", "0">:$preSize,
                        DefaultValuedParameter<"int64_t", "0">:$subSize);
  let extraClassDeclaration = [{
    bool isSubAxis() const { return getSubSize() != 0; }
  }];
}

def Sdy_DimensionShardingAttr
    : Sdy_Attr<"DimensionSharding", "dimension_sharding"> {
  let summary = "axes that split a dimension; open (`?`) if further axes may";
  let parameters = (ins ArrayRefParameter<"AxisRefAttr">:$axes,
                        "bool":$isClosed,
                        DefaultValuedParameter<"int64_t", "-1">:$priority);
}

def Sdy_TensorShardingAttr : Sdy_Attr<"TensorSharding", "sharding"> {
  let summary = "sharding of the dimensions of a tensor over a mesh";
  let parameters = (ins
    "::mlir::Attribute":$meshOrRef,
    ArrayRefParameter<"DimensionShardingAttr">:$dimShardings,
    ArrayRefParameter<"AxisRefAttr">:$replicatedAxes,
    ArrayRefParameter<"AxisRefAttr">:$unreducedAxes);
  let extraClassDeclaration = [{
    /// Returns the mesh, looked up from `op` if it is a symbol; null if
    /// missing.
    MeshAttr getMesh(::mlir::Operation *op) const;
    /// Returns the sharding in which each dimension has only the axes that
    /// `keep` returns, given the dimension and its axes.
    TensorShardingAttr keepAxes(
        ::llvm::function_ref<::llvm::ArrayRef<::scalify::sdy::AxisRefAttr>(
            int64_t, ::llvm::ArrayRef<::scalify::sdy::AxisRefAttr>)>
            keep) const;
    /// Checks the mesh, the rank and the axes against a tensor type.
    ::llvm::LogicalResult verifyFor(
        ::mlir::Operation *op, ::mlir::Type type,
        ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError) const;
  }];
}

def Sdy_TensorShardingPerValueAttr
    : Sdy_Attr<"TensorShardingPerValue", "sharding_per_value",
               "`<` $shardings `>`"> {
  let summary = "one sharding for each of an op's values";
  let parameters = (ins Sdy_Square<"TensorShardingAttr">:$shardings);
}

def Sdy_ManualAxesAttr : Sdy_Attr<"ManualAxes", "manual_axes", "$axes"> {
  let summary = "names of axes over whose shards a computation is written";
  let parameters = (ins Sdy_Braces<"::mlir::StringAttr">:$axes);
}

def Sdy_AxisRefListAttr
    : Sdy_Attr<"AxisRefList", "axis_ref_list", "$axes"> {
  let summary = "axes of a collective, `{\"x\", \"y\"}`";
  let parameters = (ins Sdy_Braces<"AxisRefAttr">:$axes);
}

def Sdy_ListOfAxisRefListsAttr
    : Sdy_Attr<"ListOfAxisRefLists", "list_of_axis_ref_lists", "$dims"> {
  let summary = "axes of a collective by dimension, `[{\"x\"}, {}]`";
  let parameters = (ins Sdy_Square<"AxisRefListAttr">:$dims);
}

def Sdy_AllToAllParamAttr
    : Sdy_Attr<"AllToAllParam", "all_to_all_param",
               "$axes `` `:` $sourceDim `` `->` `` $targetDim"> {
  let summary = "axes that move from one dimension to another, `{\"x\"}: 0->1`";
  let parameters = (ins Sdy_Braces<"AxisRefAttr">:$axes,
                        "int64_t":$sourceDim, "int64_t":$targetDim);
}

def Sdy_AllToAllParamListAttr
    : Sdy_Attr<"AllToAllParamList", "all_to_all_param_list", "$params"> {
  let summary = "the moves of an all_to_all, `[{\"x\"}: 0->1]`";
  let parameters = (ins Sdy_Square<"AllToAllParamAttr">:$params);
}

def Sdy_DimMappingAttr : Sdy_Attr<"DimMapping", "dim_mapping"> {
  let summary = "the factors of one dimension";
  let parameters = (ins ArrayRefParameter<"int64_t">:$factors);
}

def Sdy_TensorMappingAttr
    : Sdy_Attr<"TensorMapping", "tensor_mapping", "$dims"> {
  let summary = "the factors of each dimension of a tensor";
  let parameters = (ins Sdy_Square<"DimMappingAttr">:$dims);
}

def Sdy_OpShardingRuleAttr : Sdy_Attr<"OpShardingRule", "op_sharding_rule"> {
  let summary = "correspondence of an op's dimensions, `([i, j])->([j, i])`";
  let parameters = (ins
    ArrayRefParameter<"int64_t">:$factorSizes,
    ArrayRefParameter<"TensorMappingAttr">:$operandMappings,
    ArrayRefParameter<"TensorMappingAttr">:$resultMappings,
    ArrayRefParameter<"int64_t">:$reductionFactors,
    ArrayRefParameter<"int64_t">:$needReplicationFactors,
    ArrayRefParameter<"int64_t">:$permutationFactors,
    ArrayRefParameter<"int64_t">:$blockedPropagationFactors,
    "bool":$isCustomRule);
}

#endif // SCALIFY_DIALECT_SDY_SDYATTRS
