//===- Dialect.cpp - Registration of the stablehlo dialect ----------------===//

#include "scalify/Dialect/StableHLO/AnywhereInliner.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

#include "scalify/Dialect/StableHLO/Dialect.cpp.inc"

void StableHLODialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/StableHLO/Ops.cpp.inc"
      >();
  addInterfaces<AnywhereInliner>();
}

Operation *StableHLODialect::materializeConstant(OpBuilder &builder,
                                                 Attribute value, Type type,
                                                 Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getShapedType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}
