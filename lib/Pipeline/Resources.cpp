//===- Resources.cpp - Constants whose elements are resources -------------===//

#include "Resources.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"

using namespace mlir;

/// False for what dense elements cannot be of.
static bool hasElements(ShapedType type) {
  Type element = type.getElementType();
  if (auto complex = dyn_cast<ComplexType>(element))
    element = complex.getElementType();
  int64_t count = 1;
  return type.hasStaticShape() && element.isIntOrIndexOrFloat() &&
         llvm::none_of(type.getShape(), [&](int64_t extent) {
           return llvm::MulOverflow(count, extent, count);
         });
}

static FailureOr<DenseElementsAttr> read(Operation *op,
                                         DenseResourceElementsAttr attr) {
  DenseResourceElementsHandle handle = attr.getRawHandle();
  AsmResourceBlob *blob = handle.getBlob();
  if (!blob)
    return op->emitOpError("has the elements of the resource '")
           << handle.getKey()
           << "', which the text lacks: print the program with its resources";
  ShapedType type = attr.getType();
  ArrayRef<char> data = blob->getData();
  auto refuse = [&] {
    return op->emitOpError("has the resource '")
           << handle.getKey() << "' of " << data.size()
           << " bytes, which are not the elements of " << type;
  };
  if (!hasElements(type))
    return refuse();
  auto count = static_cast<size_t>(type.getNumElements());
  // A byte for each boolean.
  if (type.getElementType().isInteger(1) && data.size() == count)
    return DenseElementsAttr::get(
        type, llvm::map_to_vector(data, [](char byte) { return byte != 0; }));
  bool isSplat = false;
  if (!DenseElementsAttr::isValidRawBuffer(type, data, isSplat) ||
      (isSplat && count > 1 && !type.getElementType().isInteger(1)))
    return refuse();
  return DenseElementsAttr::getFromRawBuffer(type, data);
}

LogicalResult scalify::readResources(ModuleOp module) {
  WalkResult result = module.walk([](Operation *op) {
    for (NamedAttribute entry : op->getAttrs()) {
      auto attr = dyn_cast<DenseResourceElementsAttr>(entry.getValue());
      if (!attr)
        continue;
      FailureOr<DenseElementsAttr> dense = read(op, attr);
      if (failed(dense))
        return WalkResult::interrupt();
      op->setAttr(entry.getName(), *dense);
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
