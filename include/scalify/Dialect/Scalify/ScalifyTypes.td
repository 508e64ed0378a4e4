//===- ScalifyTypes.td - The scaled tensor type ------------*- tablegen -*-===//

#ifndef SCALIFY_TYPES_TD
#define SCALIFY_TYPES_TD

include "scalify/Dialect/Scalify/ScalifyBase.td"

def Scalify_ScaledType : TypeDef<Scalify_Dialect, "Scaled"> {
  let mnemonic = "scaled";
  let summary = "a pair (data, scale) that stands for data * scale";
  let description = [{
    `!scalify.scaled<tensor<4x8xf16>>` has one scale for the tensor;
    `!scalify.scaled<tensor<256x512xf8E4M3FN>, block = [1, 128]>` one for each
    block. A block size of 0 spans its dimension: `block = [1, 0]` is one scale
    per row. Scales are f32.

    The type appears only where a pair is one value: between `scalify.pack` and
    `scalify.unpack`, as a loop's carry, and in calls.
  }];
  let parameters = (ins "::mlir::RankedTensorType":$data,
                        OptionalArrayRefParameter<"int64_t">:$block);
  let assemblyFormat = "`<` $data (`,` `block` `=` `[` $block^ `]`)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The type of the scale: rank 0 without blocks, else one per block.
    ::mlir::RankedTensorType getScaleType();
  }];
}

#endif // SCALIFY_TYPES_TD
