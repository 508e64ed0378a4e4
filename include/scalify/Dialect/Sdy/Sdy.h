//===- Sdy.h - The sdy dialect ----------------------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SDY_SDY_H
#define SCALIFY_DIALECT_SDY_SDY_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "scalify/Dialect/Sdy/SdyDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "scalify/Dialect/Sdy/SdyAttrs.h.inc"

#define GET_OP_CLASSES
#include "scalify/Dialect/Sdy/SdyOps.h.inc"

namespace scalify::sdy {
/// Returns the largest mesh that a module names, to one of whose devices its
/// program belongs; null if it names none.
MeshAttr findLargestMesh(mlir::Operation *module);
} // namespace scalify::sdy

#endif // SCALIFY_DIALECT_SDY_SDY_H
