//===- EmitArtefact.cpp - Artefacts for a GPU -----------------------------===//

#include "scalify/Target/CUDA/CUDATarget.h"

#include "scalify/Codegen/Passes.h"
#include "scalify/Target/Artefact/KernelModule.h"
#include "scalify/Target/Artefact/Manifest.h"
#include "scalify/Target/Artefact/ToolRun.h"
#include "scalify/Target/CUDA/Passes.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace scalify;

/// Copies the threads of a block from functions to kernels.
static void copyBlockSizes(ModuleOp module) {
  SymbolTable symbols(module);
  module.walk([&](plan::KernelOp kernel) {
    auto function = symbols.lookup<func::FuncOp>(*kernel.getFunction());
    if (Attribute threads = function->getAttr(kThreadsAttr))
      kernel->setAttr(kThreadsAttr, threads);
  });
}

static FailureOr<std::string> makePTX(ModuleOp module, StringRef chip) {
  OwningOpRef<ModuleOp> kernels = extractKernels(module);
  PassManager manager(module.getContext());
  manager.addPass(createKernelsToNVVM());
  if (failed(manager.run(*kernels)))
    return failure();
  return emitPTX(*kernels->getOps<gpu::GPUModuleOp>().begin(), chip);
}

/// Returns machine code, which saves the driver compilation; none without
/// ptxas, or if the options leave it out.
static FailureOr<std::string> makeCubin(Location loc, StringRef ptx,
                                        const CUDATargetOptions &options) {
  std::string ptxas = options.ptxas;
  if (ptxas == "none")
    return std::string();
  if (ptxas.empty())
    ptxas = findTool({"ptxas"}, {"/usr/local/cuda/bin"});
  if (ptxas.empty()) {
    emitRemark(loc) << "no ptxas found (PyPI's nvidia-cuda-nvcc has one): the "
                       "kernels stay PTX, which the driver compiles at load";
    return std::string();
  }
  std::string arch = "-arch=" + options.chip;
  return runTool(loc, ptxas, {arch, "-o", "@out", "@in"}, ptx);
}

FailureOr<std::string>
scalify::emitCUDAArtefactFromPlan(ModuleOp module,
                                  const CUDATargetOptions &options) {
  auto step = module.lookupSymbol<plan::ProgramOp>("step");
  if (!step)
    return module.emitError("has no plan.program @step to emit");
  if (failed(lowerKernels(module, options.chip)))
    return failure();
  copyBlockSizes(module);
  FailureOr<std::string> ptx = makePTX(module, options.chip);
  if (failed(ptx))
    return failure();
  FailureOr<std::string> cubin = makeCubin(module.getLoc(), *ptx, options);
  if (failed(cubin))
    return failure();
  PlanText text = writeManifest(step, options.chip, options.recipe);
  SmallVector<Section> sections{{"kernels", *ptx},
                                {"constants", text.constants}};
  // Versions of ptxas differ, and some machines have none.
  if (!cubin->empty())
    sections.push_back({"cubin", *cubin, /*countsForHash=*/false});
  if (!options.report.empty())
    sections.push_back({"report", options.report, /*countsForHash=*/false});
  return assembleArtefact(module.getLoc(), text, sections);
}
