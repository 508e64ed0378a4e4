//===- CUDATarget.cpp - Artefacts for NVIDIA's GPUs -----------------------===//

#include "CUDATarget.h"

#include "scalify/Codegen/KeptCode.h"
#include "scalify/Target/Artefact/Manifest.h"
#include "scalify/Target/Artefact/Passes.h"
#include "scalify/Target/Artefact/ToolRun.h"
#include "scalify/Target/CUDA/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace scalify;

void CUDATarget::buildLowering(OpPassManager &kernels) const {
  kernels.addPass(createKernelsToNVVM());
}

/// Returns no text if no kernel is lowered, as in a plan alone.
static FailureOr<std::string> makePTX(ModuleOp module, StringRef chip) {
  FailureOr<ModuleOp> kernels = getKernels(module);
  if (failed(kernels))
    return failure();
  auto lowered = kernels->getOps<gpu::GPUModuleOp>();
  if (lowered.empty())
    return std::string();
  return emitPTX(*lowered.begin(), chip);
}

/// Returns the path, size and time of a program, which identify its version.
static std::string versionOf(StringRef program) {
  llvm::sys::fs::file_status status;
  // An absent program fails when it runs, and no code is kept.
  if (llvm::sys::fs::status(program, status))
    return program.str();
  return llvm::formatv(
             "{0} {1} {2}", program, status.getSize(),
             status.getLastModificationTime().time_since_epoch().count())
      .str();
}

/// Returns machine code, which saves the driver compilation; none without
/// kernels or ptxas, or if the options leave it out.
static FailureOr<std::string> makeCubin(Location loc, StringRef ptx,
                                        StringRef chip, std::string ptxas) {
  if (ptx.empty() || ptxas == "none")
    return std::string();
  if (ptxas.empty())
    ptxas = findTool({"ptxas"}, {"/usr/local/cuda/bin"});
  if (ptxas.empty()) {
    emitRemark(loc) << "no ptxas found (PyPI's nvidia-cuda-nvcc has one): the "
                       "kernels stay PTX, which the driver compiles at load";
    return std::string();
  }
  std::string arch = "-arch=" + chip.str();
  auto cubin =
      keepCode(loc, "cubin_" + hashOf({versionOf(ptxas), arch, ptx}), [&] {
        return runTool(loc, ptxas, {arch, "-o", "@out", "@in"}, ptx);
      });
  if (failed(cubin))
    return failure();
  return **cubin;
}

FailureOr<std::string>
CUDATarget::emitArtefact(ModuleOp module,
                         const ArtefactOptions &options) const {
  StringRef chip = getInfo().chip;
  FailureOr<std::string> ptx = makePTX(module, chip);
  if (failed(ptx))
    return failure();
  FailureOr<std::string> cubin =
      makeCubin(module.getLoc(), *ptx, chip, options.ptxas);
  if (failed(cubin))
    return failure();
  FailureOr<PlanText> text = writeManifest(module, getInfo(), options.recipe);
  if (failed(text))
    return failure();
  SmallVector<Section> sections{{"kernels", *ptx},
                                {"constants", text->constants}};
  // Versions of ptxas differ, and some machines have none.
  if (!cubin->empty())
    sections.push_back({"cubin", *cubin, /*countsForHash=*/false});
  if (!options.report.empty())
    sections.push_back({"report", options.report, /*countsForHash=*/false});
  return assembleArtefact(module.getLoc(), *text, sections);
}
