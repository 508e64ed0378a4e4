//===- Dialect.cpp - Registration of the stablehlo dialect ----------------===//

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Builders.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
using namespace scalify::stablehlo;

#include "scalify/Dialect/StableHLO/Dialect.cpp.inc"

namespace {
/// Every op and region may be inlined: no op of the dialect depends on its
/// parent function.
struct Inliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *, Operation *, bool) const final {
    return true;
  }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const final {
    return true;
  }
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
};
} // namespace

void StableHLODialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/StableHLO/Elementwise.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/StableHLO/Shape.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/StableHLO/Indexing.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/StableHLO/Dot.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/StableHLO/Reduce.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/StableHLO/Control.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/StableHLO/Convolution.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/StableHLO/Collective.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/StableHLO/Numeric.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/StableHLO/Call.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/StableHLO/Dynamic.cpp.inc"
      >();
  addInterfaces<Inliner>();
}

Operation *StableHLODialect::materializeConstant(OpBuilder &builder,
                                                 Attribute value, Type type,
                                                 Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getShapedType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}
