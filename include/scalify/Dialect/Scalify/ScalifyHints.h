//===- ScalifyHints.h - Scales from the user and the step -------*- C++ -*-===//
//
// The ops that set or measure a scale. Few passes use them, so they are not
// part of Scalify.h.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_SCALIFY_SCALIFYHINTS_H
#define SCALIFY_DIALECT_SCALIFY_SCALIFYHINTS_H

#include "scalify/Dialect/Scalify/Scalify.h"

#define GET_OP_CLASSES
#include "scalify/Dialect/Scalify/ScalifyHints.h.inc"

#endif // SCALIFY_DIALECT_SCALIFY_SCALIFYHINTS_H
