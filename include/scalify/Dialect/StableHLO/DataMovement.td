//===- DataMovement.td - Ops that move elements ------------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_DATAMOVEMENT
#define SCALIFY_DIALECT_STABLEHLO_DATAMOVEMENT

include "mlir/IR/OpBase.td"

def DataMovementOpInterface : OpInterface<"DataMovementOpInterface"> {
  let cppNamespace = "::scalify";
  let description = [{
    An op whose results each consist of elements of one operand: reordered,
    reshaped, converted, repeated, or a part of them. `scalify::lookThrough`
    skips such ops.
  }];
  let methods = [
    InterfaceMethod<"the op's kind of movement",
      "::scalify::Move", "getMove", (ins)>,
    InterfaceMethod<"the operand whose elements a result has",
      "::mlir::Value", "getMovedOperand", (ins "unsigned":$result), [{}], [{
        return $_op->getOperand($_op->getNumResults() == 1 ? 0 : result);
      }]>
  ];
}

class MovesTrait<string move>
    : ParamNativeOpTrait<"Moves", "::scalify::Move::" # move> {
  let cppNamespace = "::scalify";
}

/// An op with one kind of movement: a member of the enum `Move`.
class Moves<string move>
    : TraitList<[DataMovementOpInterface, MovesTrait<move>]>;

#endif // SCALIFY_DIALECT_STABLEHLO_DATAMOVEMENT
