//===- ScalifyDialect.cpp - Dialect, types and interface ------------------===//

#include "scalify/Dialect/Scalify/ScalifyHints.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace scalify;

#include "scalify/Dialect/Scalify/ScaleRuleInterface.cpp.inc"
#include "scalify/Dialect/Scalify/ScalifyDialect.cpp.inc"
#include "scalify/Dialect/Scalify/ScalifyEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "scalify/Dialect/Scalify/ScalifyAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "scalify/Dialect/Scalify/ScalifyTypes.cpp.inc"

namespace {
struct ScalifyInliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
};
} // namespace

void ScalifyDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "scalify/Dialect/Scalify/ScalifyAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "scalify/Dialect/Scalify/ScalifyTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/Scalify/ScalifyOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "scalify/Dialect/Scalify/ScalifyHints.cpp.inc"
      >();
  addInterfaces<ScalifyInliner>();
}

std::string DecisionAttr::describe() const {
  return (getPart() + ": " + getReason()).str();
}

bool DecisionAttr::isChoice() const {
  return !llvm::is_contained({"body", "loop", "scale", "constant"}, getPart());
}

LogicalResult
ScaledType::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   RankedTensorType data, ArrayRef<int64_t> block) {
  if (!isa<FloatType>(data.getElementType()))
    return emitError() << "scaled data must be floating point, got " << data;
  if (block.empty())
    return success();
  if (static_cast<int64_t>(block.size()) != data.getRank())
    return emitError() << "expects one block size per dimension of " << data
                       << ", got " << block.size();
  for (int64_t size : block)
    if (size < 0)
      return emitError() << "block size " << size << " is negative";
  return success();
}

RankedTensorType ScaledType::getScaleType() {
  SmallVector<int64_t> shape;
  if (!getBlock().empty())
    for (auto [dim, size] : llvm::zip(getData().getShape(), getBlock()))
      shape.push_back(size == 0 ? 1 : llvm::divideCeil(dim, size));
  return RankedTensorType::get(shape, Float32Type::get(getContext()));
}
