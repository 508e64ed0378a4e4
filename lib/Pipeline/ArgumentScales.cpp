//===- ArgumentScales.cpp - Scales as an input of compilation -------------===//

#include "ArgumentScales.h"

#include "ArgumentEntries.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Scaling/ScaleAnalysis.h"

using namespace mlir;
using namespace scalify;

LogicalResult scalify::applyArgumentScales(ModuleOp module,
                                           ArrayRef<ArgumentScale> scales) {
  if (scales.empty())
    return success();
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    return module.emitError("the module has no function '@main' whose "
                            "arguments could be given scales");
  Builder builder(module.getContext());
  ArgumentFinder arguments(main);
  for (const ArgumentScale &scale : scales) {
    FailureOr<unsigned> found = arguments.find(scale.argument, "scale");
    if (failed(found))
      return failure();
    unsigned index = *found;
    Type type = main.getArgument(index).getType();
    if (!isFloatTensor(type))
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
