//===- SdyDialect.td - The sdy dialect ---------------------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_SDY_SDYDIALECT
#define SCALIFY_DIALECT_SDY_SDYDIALECT

include "mlir/IR/DialectBase.td"

def Sdy_Dialect : Dialect {
  let name = "sdy";
  let cppNamespace = "::scalify::sdy";
  let summary = "meshes of devices and shardings of tensors over them";
  let description = [{
    JAX emits a mesh, `sdy.sharding` attributes on arguments, results and ops,
    and manual computations on one device's shard. The dialect parses and
    verifies them; it propagates nothing.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

#endif // SCALIFY_DIALECT_SDY_SDYDIALECT
