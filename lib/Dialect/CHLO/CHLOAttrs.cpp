//===- CHLOAttrs.cpp - Attributes of the chlo dialect ---------------------===//

#include "../StableHLO/Assembly.h"

#include "scalify/Dialect/CHLO/CHLO.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify::chlo;

#include "scalify/Dialect/CHLO/CHLOEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "scalify/Dialect/CHLO/CHLOAttrs.cpp.inc"

void CHLODialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "scalify/Dialect/CHLO/CHLOAttrs.cpp.inc"
      >();
}
