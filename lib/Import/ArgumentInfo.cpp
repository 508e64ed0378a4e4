//===- ArgumentInfo.cpp - Attributes of main's signature ------------------===//

#include "ArgumentInfo.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Import/Locations.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace scalify;

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

std::string scalify::import::getArgumentName(func::FuncOp main,
                                             unsigned index) {
  if (auto name = main.getArgAttrOfType<StringAttr>(index, kNameAttr))
    return name.str();
  if (std::string name = getNameStack(main.getArgument(index).getLoc());
      !name.empty())
    return name;
  if (std::optional<unsigned> result = getAliasedResult(main, index);
      result && *result < main.getNumResults())
    if (StringRef info = getResultInfo(main, *result); !info.empty())
      return info.str();
  return ("arg" + Twine(index)).str();
}

StringRef scalify::import::getTreeOf(func::FuncOp main, unsigned index) {
  auto name = main.getArgAttrOfType<StringAttr>(index, kNameAttr);
  if (!name)
    return {};
  return name.getValue().take_until(
      [](char c) { return c == '[' || c == '.'; });
}

OperandRange scalify::import::getResults(func::FuncOp main) {
  return main.getBody().front().getTerminator()->getOperands();
}

/// Returns 1 if `value` is `origin`, 2 if it is `origin` after writes of
/// slices, and 0 otherwise.
static unsigned countWrites(Value value, Value origin) {
  unsigned found = 1;
  while (value != origin) {
    Operation *op = value.getDefiningOp();
    if (isa_and_nonnull<stablehlo::ConvertOp, stablehlo::ReshapeOp>(op)) {
      value = op->getOperand(0);
    } else if (isa_and_nonnull<stablehlo::DynamicUpdateSliceOp>(op)) {
      value = op->getOperand(0);
      found = 2;
    } else if (auto loop = dyn_cast_if_present<stablehlo::WhileOp>(op)) {
      unsigned number = cast<OpResult>(value).getResultNumber();
      Block &body = loop.getBody().front();
      unsigned inside = countWrites(body.getTerminator()->getOperand(number),
                                    body.getArgument(number));
      if (inside == 0)
        return 0;
      found = std::max(found, inside);
      value = loop->getOperand(number);
    } else {
      return 0;
    }
  }
  return found;
}

bool scalify::import::isWrittenInSlices(func::FuncOp main, unsigned index) {
  Value argument = main.getArgument(index);
  return llvm::any_of(getResults(main), [&](Value result) {
    return result.getType() == argument.getType() &&
           countWrites(result, argument) == 2;
  });
}
