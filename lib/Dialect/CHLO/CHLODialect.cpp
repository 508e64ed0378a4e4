//===- CHLODialect.cpp - Registration of the chlo dialect -----------------===//

#include "scalify/Dialect/CHLO/CHLO.h"

#include "mlir/IR/Builders.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
using namespace scalify::chlo;

#include "scalify/Dialect/CHLO/CHLODialect.cpp.inc"

namespace {
/// Every op may be inlined: none depends on its parent function.
struct Inliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const final {
    return true;
  }
};
} // namespace

void CHLODialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/CHLO/CHLOOps.cpp.inc"
      >();
  addInterfaces<Inliner>();
}

Operation *CHLODialect::materializeConstant(OpBuilder &builder, Attribute value,
                                            Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getShapedType() != type)
    return nullptr;
  return scalify::stablehlo::ConstantOp::create(builder, loc, elements);
}
