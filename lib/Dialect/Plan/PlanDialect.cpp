//===- PlanDialect.cpp - Registration of the plan dialect -----------------===//

#include "scalify/Dialect/Plan/Plan.h"

using namespace mlir;

#include "scalify/Dialect/Plan/PlanDialect.cpp.inc"

void scalify::plan::PlanDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/Plan/PlanOps.cpp.inc"
      >();
}
