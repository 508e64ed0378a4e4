//===- Dialect.td - The stablehlo dialect ------------------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_DIALECT
#define SCALIFY_DIALECT_STABLEHLO_DIALECT

include "mlir/IR/DialectBase.td"

def StableHLO_Dialect : Dialect {
  let name = "stablehlo";
  let cppNamespace = "::scalify::stablehlo";
  let summary = "the portable tensor operations that training programs use";
  let description = [{
    Parses and prints the text form of StableHLO as JAX prints it. Ops are
    grouped by family, with one td and one source file per family. The dialect
    is independent of scales, which belong to the `scalify` dialect.
  }];
  let dependentDialects = ["::mlir::quant::QuantDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
  }];
}

#endif // SCALIFY_DIALECT_STABLEHLO_DIALECT
