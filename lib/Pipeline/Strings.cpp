//===- Strings.cpp - Texts of a program -----------------------------------===//

#include "Strings.h"

#include "mlir/IR/AttrTypeSubElements.h"

#include "llvm/Support/JSON.h"

using namespace mlir;

LogicalResult scalify::checkStrings(ModuleOp module) {
  StringAttr wrong;
  AttrTypeWalker walker;
  walker.addWalk([&](StringAttr text) {
    if (llvm::json::isUTF8(text.getValue()))
      return WalkResult::advance();
    wrong = text;
    return WalkResult::interrupt();
  });
  auto isText = [&](Attribute attr) {
    return !walker.walk(attr).wasInterrupted();
  };
  auto isTextOf = [&](Operation *op) {
    for (NamedAttribute attr : op->getAttrs())
      if (!attr.getName().strref().ends_with("backend_config") &&
          !isText(attr.getValue()))
        return false;
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          if (!isText(argument.getLoc()))
            return false;
    return isText(op->getLoc());
  };
  WalkResult found = module.walk([&](Operation *op) -> WalkResult {
    if (isTextOf(op))
      return WalkResult::advance();
    return op->emitOpError("has the string ")
           << wrong << ", which is not UTF-8; write names as UTF-8";
  });
  return failure(found.wasInterrupted());
}
