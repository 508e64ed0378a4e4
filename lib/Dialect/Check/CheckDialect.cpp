//===- CheckDialect.cpp - Registration of the check dialect ---------------===//

#include "scalify/Dialect/Check/Check.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify::check;

#include "scalify/Dialect/Check/CheckDialect.cpp.inc"

#define GET_OP_CLASSES
#include "scalify/Dialect/Check/CheckOps.cpp.inc"

void CheckDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/Check/CheckOps.cpp.inc"
      >();
}
