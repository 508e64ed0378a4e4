//===- OutlineKernels.cpp - Move kernel functions to a module -------------===//

#include "scalify/Target/Artefact/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {
#define GEN_PASS_DEF_OUTLINEKERNELS
#include "scalify/Target/Artefact/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

FailureOr<ModuleOp> scalify::getKernels(ModuleOp module) {
  auto kernels = module.lookupSymbol<ModuleOp>(kKernels);
  if (!kernels)
    return module.emitError("has no module @")
           << kKernels << ": run scalify-outline-kernels first";
  return kernels;
}

namespace {
struct OutlineKernels : scalify::impl::OutlineKernelsBase<OutlineKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
    auto kernels = ModuleOp::create(b, module.getLoc(), kKernels);
    for (auto function :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      function->remove();
      kernels.push_back(function);
    }
  }
};
} // namespace
