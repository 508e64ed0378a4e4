//===- ArgumentInfo.cpp - What main's signature says ----------------------===//

#include "ArgumentInfo.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

FailureOr<func::FuncOp> scalify::import::getMain(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || !main.isPublic()) {
    module.emitError("the module has no public function '@main'");
    return failure();
  }
  if (main.isExternal() || !main.getBody().hasOneBlock()) {
    main.emitOpError("'@main' must have a body of one block");
    return failure();
  }
  return main;
}

std::optional<unsigned> scalify::import::getAliasedResult(func::FuncOp main,
                                                          unsigned index) {
  if (auto alias = main.getArgAttrOfType<IntegerAttr>(index, kAliasAttr))
    return alias.getInt();
  return std::nullopt;
}

SmallVector<int64_t> scalify::import::getAliasedArguments(func::FuncOp main) {
  SmallVector<int64_t> arguments(main.getNumResults(), -1);
  for (unsigned index = 0; index < main.getNumArguments(); ++index)
    if (std::optional<unsigned> result = getAliasedResult(main, index))
      if (*result < arguments.size())
        arguments[*result] = index;
  return arguments;
}

StringRef scalify::import::getResultInfo(func::FuncOp main, unsigned index) {
  if (auto info = main.getResultAttrOfType<StringAttr>(index, kResultInfoAttr))
    return info.getValue();
  return {};
}

OperandRange scalify::import::getResults(func::FuncOp main) {
  return main.getBody().front().getTerminator()->getOperands();
}
