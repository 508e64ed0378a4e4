//===- Types.td - Types of the stablehlo dialect -----------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_TYPES
#define SCALIFY_DIALECT_STABLEHLO_TYPES

include "mlir/IR/AttrTypeBase.td"
include "scalify/Dialect/StableHLO/Dialect.td"

def StableHLO_Token : TypeDef<StableHLO_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "orders ops that have side effects";
}

#endif // SCALIFY_DIALECT_STABLEHLO_TYPES
