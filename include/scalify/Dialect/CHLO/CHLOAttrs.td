//===- CHLOAttrs.td - The chlo dialect and its attributes --*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_CHLO_CHLOATTRS
#define SCALIFY_DIALECT_CHLO_CHLOATTRS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/EnumAttr.td"

def CHLO_Dialect : Dialect {
  let name = "chlo";
  let cppNamespace = "::scalify::chlo";
  let summary = "client-level ops that abbreviate expressions over stablehlo";
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

def CHLO_Precision : I32EnumAttr<"Precision", "precision of a product", [
    I32EnumAttrCase<"DEFAULT", 0>, I32EnumAttrCase<"HIGH", 1>,
    I32EnumAttrCase<"HIGHEST", 2>]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::scalify::chlo";
}
def CHLO_PrecisionAttr : EnumAttr<CHLO_Dialect, CHLO_Precision, "precision">;
def CHLO_PrecisionConfigAttr
    : TypedArrayAttrBase<CHLO_PrecisionAttr, "precision per operand">;

def CHLO_Dims : OptionalArrayRefParameter<"int64_t"> {
  let parser = "::scalify::stablehlo::parseDims($_parser)";
  let printer = "::scalify::stablehlo::printDims($_printer, $_self)";
}

def CHLO_RaggedDotDimensionNumbersAttr
    : AttrDef<CHLO_Dialect, "RaggedDotDimensionNumbers"> {
  let mnemonic = "ragged_dot";
  let summary = "roles of a ragged dot's dimensions: batch, summed or grouped";
  let parameters = (ins
    CHLO_Dims:$lhs_batching_dimensions,
    CHLO_Dims:$rhs_batching_dimensions,
    CHLO_Dims:$lhs_contracting_dimensions,
    CHLO_Dims:$rhs_contracting_dimensions,
    CHLO_Dims:$lhs_ragged_dimensions,
    CHLO_Dims:$rhs_group_dimensions);
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif // SCALIFY_DIALECT_CHLO_CHLOATTRS
