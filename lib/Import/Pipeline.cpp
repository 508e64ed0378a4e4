//===- Pipeline.cpp - The Import stage as one pipeline --------------------===//

#include "scalify/Import/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

void scalify::buildImportPipeline(OpPassManager &manager) {
  manager.addPass(createInlineCallsPass());
  manager.addPass(createNormalizeShardingPass());
  manager.addPass(createExpandCHLOPass());
  manager.addPass(createCanonicalizeStableHLOPass());
  manager.addPass(createNormalizeDonationPass());
  manager.addPass(createAnnotatePhasesPass());
  manager.addPass(createAnnotateRolesPass());
  manager.addPass(createValidateImportPass());
}

void scalify::registerImportPipeline() {
  PassPipelineRegistration<>("scalify-import",
                             "StableHLO as JAX prints it to the normal form",
                             buildImportPipeline);
}
