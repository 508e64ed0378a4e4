//===- ScalifyDialect.cpp - Dialect, attributes and interface -------------===//

#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Dialect/StableHLO/AnywhereInliner.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;

#include "scalify/Dialect/Scalify/ScaleRuleInterface.cpp.inc"
#include "scalify/Dialect/Scalify/ScalifyDialect.cpp.inc"
#include "scalify/Dialect/Scalify/ScalifyEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "scalify/Dialect/Scalify/ScalifyAttrs.cpp.inc"

void ScalifyDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "scalify/Dialect/Scalify/ScalifyAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/Scalify/ScalifyOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/Scalify/ScalifyHints.cpp.inc"
      >();
  addInterfaces<AnywhereInliner>();
}

std::string DecisionAttr::describe() const {
  return (getPart() + ": " + getReason()).str();
}

bool DecisionAttr::isChoice() const {
  return !llvm::is_contained({"body", "loop", "scale", "constant"}, getPart());
}
