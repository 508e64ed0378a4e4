//===- ArgumentScales.cpp - Scales as an input of compilation -------------===//

#include "ArgumentScales.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Scaling/ScaleAnalysis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace scalify;

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
  for (BlockArgument argument : main.getArguments())
    indices.try_emplace(getArgumentName(argument), argument.getArgNumber());
  Builder builder(module.getContext());
  for (const ArgumentScale &scale : scales) {
    // By name, by index, or by the default name of an unnamed argument.
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
    if (scale.moments)
      main.setArgAttr(index, kMomentsAttr,
                      builder.getDenseF64ArrayAttr(
                          {scale.moments->mean, scale.moments->deviation}));
  }
  return success();
}
