//===- ScalifyHints.cpp - Scales from the user and the step ---------------===//

#include "scalify/Dialect/Scalify/ScalifyHints.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify;

#define GET_OP_CLASSES
#include "scalify/Dialect/Scalify/ScalifyHints.cpp.inc"
