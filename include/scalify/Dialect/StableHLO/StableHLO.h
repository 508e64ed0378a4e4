//===- StableHLO.h - The stablehlo dialect ----------------------*- C++ -*-===//
//
// The dialect with its attributes, types and ops, grouped by family. Include
// this header only; the parts are not meant to be included on their own.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_STABLEHLO_STABLEHLO_H
#define SCALIFY_DIALECT_STABLEHLO_STABLEHLO_H

#include "scalify/Dialect/StableHLO/Attrs.h"
#include "scalify/Dialect/StableHLO/DataMovement.h"
#include "scalify/Dialect/StableHLO/Detail.h"
#include "scalify/Dialect/StableHLO/Traits.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Elementwise.h.inc"
#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Shape.h.inc"
#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Indexing.h.inc"
#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Dot.h.inc"
#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Reduce.h.inc"
#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Control.h.inc"
#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Convolution.h.inc"
#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Collective.h.inc"
#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Numeric.h.inc"
#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Call.h.inc"
#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Dynamic.h.inc"

#endif // SCALIFY_DIALECT_STABLEHLO_STABLEHLO_H
