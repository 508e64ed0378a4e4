//===- InitAll.cpp - Registers every Scalify dialect and pass -------------===//

#include "scalify/Pipeline/InitAll.h"

#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/DialectRegistry.h"

void scalify::registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<scalify::stablehlo::StableHLODialect>();
  registry.insert<scalify::chlo::CHLODialect>();
}

void scalify::registerAllPasses() {}
