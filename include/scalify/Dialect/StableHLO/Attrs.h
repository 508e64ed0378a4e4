//===- Attrs.h - Attributes and types of stablehlo --------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_ATTRS_H
#define SCALIFY_DIALECT_STABLEHLO_ATTRS_H

#include "mlir/Dialect/Quant/IR/Quant.h"
#include "mlir/Dialect/Quant/IR/QuantTypes.h"
#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "llvm/ADT/APFloat.h"

#include "scalify/Dialect/StableHLO/Dialect.h.inc"
#include "scalify/Dialect/StableHLO/Enums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "scalify/Dialect/StableHLO/Types.h.inc"
#define GET_ATTRDEF_CLASSES
#include "scalify/Dialect/StableHLO/Attrs.h.inc"

#endif // SCALIFY_DIALECT_STABLEHLO_ATTRS_H
