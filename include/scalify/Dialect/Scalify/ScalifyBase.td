//===- ScalifyBase.td - The scalify dialect ----------------*- tablegen -*-===//

#ifndef SCALIFY_BASE_TD
#define SCALIFY_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Scalify_Dialect : Dialect {
  let name = "scalify";
  let cppNamespace = "::scalify";
  let summary = "Scales of tensors, and casts to narrow formats";
  let description = [{
    The dialect holds what the input language cannot express: the scale of a
    tensor, changes of scale, and casts to narrow formats. It is used between
    Import and Fusion.

    The passes communicate by discardable attributes, which the dialect verifies
    (lib/Dialect/Scalify/DiscardableAttrs.cpp). The main ones are:

    - `scalify.phase` (`#scalify.phase`, on ops): `forward`, `backward` or
      `optimizer`; recomputation belongs to the forward;
    - `scalify.role` (`#scalify.role`, on arguments), `scalify.name` (a string);
    - `scalify.scale` (i32 on ops and arguments): log2 of the scale; -127 on an
      argument that starts as all zeros;
    - `scalify.rule` (string, on ops): the rule that set the scale;
    - `scalify.recipe`, `scalify.target` (`#scalify.recipe`, `#scalify.target`,
      on the module).
  }];
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let useDefaultAttributePrinterParser = 1;
}

#endif // SCALIFY_BASE_TD
