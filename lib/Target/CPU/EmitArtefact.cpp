//===- EmitArtefact.cpp - Artefacts for a CPU -----------------------------===//

#include "scalify/Target/CPU/CPUTarget.h"

#include "scalify/Dialect/Scalify/Targets.h"
#include "scalify/Target/Artefact/KernelModule.h"
#include "scalify/Target/Artefact/Manifest.h"

using namespace mlir;
using namespace scalify;

FailureOr<std::string>
scalify::emitCPUArtefact(ModuleOp module, const CPUTargetOptions &options) {
  auto step = module.lookupSymbol<plan::ProgramOp>("step");
  if (!step)
    return module.emitError("has no plan.program @step to emit");
  if (failed(lowerKernels(module, kCPU)))
    return failure();
  OwningOpRef<ModuleOp> kernels = extractKernels(module);
  FailureOr<std::string> object = compileKernels(*kernels, options);
  if (failed(object))
    return failure();
  PlanText text = writeManifest(step, "cpu", options.recipe);
  text.manifest["mcpu"] = options.mcpu;
  SmallVector<Section> sections{{"kernels", *object},
                                {"constants", text.constants}};
  if (!options.report.empty())
    sections.push_back({"report", options.report, /*countsForHash=*/false});
  return assembleArtefact(module.getLoc(), text, sections);
}
