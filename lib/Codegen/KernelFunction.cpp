//===- KernelFunction.cpp - The type of a kernel's function ---------------===//

#include "KernelSchedule.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

FunctionType scalify::codegen::kernelFunctionType(plan::KernelOp kernel) {
  MLIRContext *context = kernel.getContext();
  SmallVector<Type> types;
  auto flat = [&](Value buffer) {
    auto type = cast<MemRefType>(buffer.getType());
    types.push_back(MemRefType::get({type.getNumElements()},
                                    storageType(type.getElementType())));
  };
  llvm::for_each(kernel.getReads(), flat);
  llvm::for_each(kernel.getWrites(), flat);
  types.append(2, IndexType::get(context));
  int64_t casts = 0;
  kernel.getBody().walk([&](QuantizeOp) { ++casts; });
  types.push_back(
      MemRefType::get({std::max<int64_t>(1, QuantizeResult::kNumWords * casts)},
                      IntegerType::get(context, 64)));
  return FunctionType::get(context, types, {});
}
