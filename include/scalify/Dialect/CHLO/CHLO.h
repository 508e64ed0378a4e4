//===- CHLO.h - The chlo dialect --------------------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_CHLO_CHLO_H
#define SCALIFY_DIALECT_CHLO_CHLO_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "scalify/Dialect/CHLO/CHLODialect.h.inc"
#include "scalify/Dialect/CHLO/CHLOEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "scalify/Dialect/CHLO/CHLOAttrs.h.inc"

#define GET_OP_CLASSES
#include "scalify/Dialect/CHLO/CHLOOps.h.inc"

#endif // SCALIFY_DIALECT_CHLO_CHLO_H
