//===- InitAll.cpp - Registers every Scalify dialect and pass -------------===//

#include "scalify/Pipeline/InitAll.h"

#include "mlir/IR/DialectRegistry.h"

void scalify::registerAllDialects(mlir::DialectRegistry &registry) {}

void scalify::registerAllPasses() {}
