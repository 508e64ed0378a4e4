//===- Dialect.td - The stablehlo dialect ------------------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_DIALECT
#define SCALIFY_DIALECT_STABLEHLO_DIALECT

include "mlir/IR/DialectBase.td"

def StableHLO_Dialect : Dialect {
  let name = "stablehlo";
  let cppNamespace = "::scalify::stablehlo";
  let summary = "the portable tensor operations that training programs use";
  let description = [{
    Reads and writes the text form of StableHLO as JAX prints it. Ops are
    grouped by family, one td and one source file per family. The dialect
    knows nothing of scales: those live in the `scalify` dialect.
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
