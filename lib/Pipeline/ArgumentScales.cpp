//===- ArgumentScales.cpp - Scales as an input of compilation -------------===//

#include "ArgumentScales.h"

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace scalify;

static std::string getName(func::FuncOp main, unsigned index) {
  if (auto name = main.getArgAttrOfType<StringAttr>(index, kNameAttr))
    return name.str();
  if (auto name = dyn_cast<NameLoc>(main.getArgument(index).getLoc()))
    return name.getName().str();
  return "arg" + std::to_string(index);
}

static bool isFloat(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped && isa<FloatType>(shaped.getElementType());
}

LogicalResult scalify::applyArgumentScales(ModuleOp module,
                                           ArrayRef<ArgumentScale> scales) {
  if (scales.empty())
    return success();
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    return module.emitError("the module has no function '@main' whose "
                            "arguments could be given scales");
  llvm::StringMap<unsigned> indices;
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    indices.try_emplace(getName(main, i), i);
  Builder builder(module.getContext());
  for (const ArgumentScale &scale : scales) {
    // By name, by index, or by what an argument without a name is called.
    StringRef number = scale.argument;
    number.consume_front("arg");
    unsigned index;
    auto it = indices.find(scale.argument);
    if (it != indices.end())
      index = it->second;
    else if (number.getAsInteger(10, index) || index >= main.getNumArguments())
      return main.emitOpError("has no argument '")
             << scale.argument << "' to give a scale (it has "
             << main.getNumArguments() << " arguments)";
    Type type = main.getArgument(index).getType();
    if (!isFloat(type))
      return emitError(main.getArgument(index).getLoc())
             << "argument '" << scale.argument << "' has type " << type
             << ": only floating-point tensors have scales";
    main.setArgAttr(index, kScaleAttr,
                    builder.getI32IntegerAttr(scale.exponent));
  }
  return success();
}
