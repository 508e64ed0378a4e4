//===- KernelModule.cpp - Module of a plan's kernels ----------------------===//

#include "scalify/Target/Artefact/KernelModule.h"

#include "scalify/Codegen/Passes.h"
#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace scalify;

LogicalResult scalify::lowerKernels(ModuleOp module, StringRef chip) {
  bool isLowered = true;
  module.walk([&](plan::KernelOp kernel) {
    isLowered &= kernel.getFunction().has_value();
  });
  if (isLowered)
    return success();
  TargetAttr::set(module, chip);
  PassManager manager(module.getContext());
  manager.addPass(createLowerKernels());
  return manager.run(module);
}

OwningOpRef<ModuleOp> scalify::extractKernels(ModuleOp module) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    function->remove();
    kernels->push_back(function);
  }
  return kernels;
}
