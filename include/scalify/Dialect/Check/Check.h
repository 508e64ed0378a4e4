//===- Check.h - The check dialect ------------------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_CHECK_CHECK_H
#define SCALIFY_DIALECT_CHECK_CHECK_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "scalify/Dialect/Check/CheckDialect.h.inc"

#define GET_OP_CLASSES
#include "scalify/Dialect/Check/CheckOps.h.inc"

#endif // SCALIFY_DIALECT_CHECK_CHECK_H
