//===- SdyDialect.td - The sdy dialect ---------------------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_SDY_SDYDIALECT
#define SCALIFY_DIALECT_SDY_SDYDIALECT

include "mlir/IR/DialectBase.td"

def Sdy_Dialect : Dialect {
  let name = "sdy";
  let cppNamespace = "::scalify::sdy";
  let summary = "meshes of devices and how tensors are spread over them";
  let description = [{
    JAX writes a mesh, `sdy.sharding` attributes on arguments, results and ops,
    and manual computations that work on one device's part. The dialect reads
    and checks them; it propagates nothing.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

#endif // SCALIFY_DIALECT_SDY_SDYDIALECT
