//===- CHLODialect.cpp - Registration of the chlo dialect -----------------===//

#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/StableHLO/AnywhereInliner.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify::chlo;

#include "scalify/Dialect/CHLO/CHLODialect.cpp.inc"

void CHLODialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/CHLO/CHLOOps.cpp.inc"
      >();
  addInterfaces<scalify::AnywhereInliner>();
}

Operation *CHLODialect::materializeConstant(OpBuilder &builder, Attribute value,
                                            Type type, Location loc) {
  return builder.getContext()
      ->getLoadedDialect<scalify::stablehlo::StableHLODialect>()
      ->materializeConstant(builder, value, type, loc);
}
