//===- DataMovement.td - Ops whose elements are an operand's -*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_DATAMOVEMENT
#define SCALIFY_DIALECT_STABLEHLO_DATAMOVEMENT

include "mlir/IR/OpBase.td"

def DataMovementOpInterface : OpInterface<"DataMovementOpInterface"> {
  let cppNamespace = "::scalify";
  let description = [{
    An op each of whose results has no elements but those of one operand: in
    another order, shape or format, repeated, or a part of them.
    `scalify::lookThrough` steps back over such ops.
  }];
  let methods = [
    InterfaceMethod<"what the op does to the elements",
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

/// An op that does one thing to elements: a member of the enum `Move`.
class Moves<string move>
    : TraitList<[DataMovementOpInterface, MovesTrait<move>]>;

#endif // SCALIFY_DIALECT_STABLEHLO_DATAMOVEMENT
