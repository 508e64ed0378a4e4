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

def CHLO_RaggedDotDimensionNumbersAttr
    : AttrDef<CHLO_Dialect, "RaggedDotDimensionNumbers"> {
  let mnemonic = "ragged_dot";
  let summary = "roles of a ragged dot's dimensions: batch, summed or grouped";
  let parameters = (ins
    ArrayRefParameter<"int64_t">:$lhsBatchingDimensions,
    ArrayRefParameter<"int64_t">:$rhsBatchingDimensions,
    ArrayRefParameter<"int64_t">:$lhsContractingDimensions,
    ArrayRefParameter<"int64_t">:$rhsContractingDimensions,
    ArrayRefParameter<"int64_t">:$lhsRaggedDimensions,
    ArrayRefParameter<"int64_t">:$rhsGroupDimensions);
  let hasCustomAssemblyFormat = 1;
}

#endif // SCALIFY_DIALECT_CHLO_CHLOATTRS
