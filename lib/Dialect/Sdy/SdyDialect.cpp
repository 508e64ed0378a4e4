//===- SdyDialect.cpp - Registration of the sdy dialect -------------------===//

#include "scalify/Dialect/Sdy/Sdy.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
using namespace scalify::sdy;

#include "scalify/Dialect/Sdy/SdyDialect.cpp.inc"

namespace {
/// Shardings name their mesh, so nothing depends on the parent function.
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

void SdyDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/Sdy/SdyOps.cpp.inc"
      >();
  addInterfaces<Inliner>();
}

/// Checks `sdy.sharding` on an argument or a result of a function.
static LogicalResult verifyFunctionSharding(Operation *op, NamedAttribute attr,
                                            StringRef what, unsigned index,
                                            Type type) {
  if (attr.getName() != "sdy.sharding")
    return success();
  auto emitError = [&] {
    return op->emitOpError() << what << " " << index << " ";
  };
  auto sharding = dyn_cast<TensorShardingAttr>(attr.getValue());
  if (!sharding)
    return emitError() << "needs '#sdy.sharding' as 'sdy.sharding' but got "
                       << attr.getValue();
  return sharding.verifyFor(op, type, emitError);
}

LogicalResult SdyDialect::verifyRegionArgAttribute(Operation *op,
                                                   unsigned regionIndex,
                                                   unsigned index,
                                                   NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return success();
  return verifyFunctionSharding(op, attr, "argument", index,
                                function.getArgumentTypes()[index]);
}

LogicalResult SdyDialect::verifyRegionResultAttribute(Operation *op,
                                                      unsigned regionIndex,
                                                      unsigned index,
                                                      NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return success();
  return verifyFunctionSharding(op, attr, "result", index,
                                function.getResultTypes()[index]);
}
