//===- CPUTarget.cpp - The target cpu -------------------------------------===//

#include "scalify/Dialect/Scalify/Targets.h"
#include "scalify/Target/Artefact/Manifest.h"
#include "scalify/Target/Artefact/Passes.h"
#include "scalify/Target/CPU/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace scalify;

// One core and a BLAS. A call costs as much as a product of two 20 x 20
// matrices, and a copy reads and writes an F32 element in half a nanosecond.
// The bucket is for shared memory as benchmarks/messages.py measures it (0.55
// to 1.25 MiB).
static constexpr TargetInfo kInfo = {
    /*name=*/kCPU,
    /*aliases=*/{},
    /*description=*/"this machine's processor",
    /*device=*/"cpu",
    /*isGPU=*/false,
    /*chip=*/"",
    /*capability=*/0,
    /*formats=*/"sm_90a",
    /*callsTakeBatch=*/false,
    /*bucketBytes=*/1 << 20,
    /*launch=*/0,
    /*call=*/300,
    /*event=*/0,
    /*bandwidth=*/16,
    /*processors=*/1,
    /*tile=*/1,
    /*products=*/{/*bf16=*/true, /*f16=*/false, /*fp8=*/false},
    /*flops=*/{50, 50, 50},
    /*peaks=*/{}};

namespace {
class CPUTarget : public Target {
public:
  CPUTarget() : Target(kInfo) {}

  void buildLowering(OpPassManager &kernels) const override {
    kernels.addPass(createKernelsToLLVM());
  }

  FailureOr<std::string>
  emitArtefact(ModuleOp module, const ArtefactOptions &options) const override;
};
} // namespace

/// Returns no bytes if no kernel is lowered, as in a plan alone.
static FailureOr<std::string> makeObject(ModuleOp module, StringRef mcpu) {
  FailureOr<ModuleOp> kernels = getKernels(module);
  if (failed(kernels))
    return failure();
  if (kernels->getOps<LLVM::LLVMFuncOp>().empty())
    return std::string();
  return compileKernels(*kernels, mcpu);
}

FailureOr<std::string>
CPUTarget::emitArtefact(ModuleOp module, const ArtefactOptions &options) const {
  FailureOr<std::string> object = makeObject(module, options.mcpu);
  if (failed(object))
    return failure();
  FailureOr<PlanText> text = writeManifest(module, getInfo(), options.recipe);
  if (failed(text))
    return failure();
  text->manifest["mcpu"] = options.mcpu;
  SmallVector<Section> sections{{"kernels", *object},
                                {"constants", text->constants}};
  if (!options.report.empty())
    sections.push_back({"report", options.report, /*countsForHash=*/false});
  return assembleArtefact(module.getLoc(), *text, sections);
}

void scalify::registerCPUTarget() {
  static const CPUTarget target;
  registerTarget(target);
}
