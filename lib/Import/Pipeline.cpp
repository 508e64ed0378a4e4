//===- Pipeline.cpp - The Import stage as one pipeline --------------------===//

#include "scalify/Import/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

void scalify::buildImportPipeline(OpPassManager &manager, bool chunkSums) {
  manager.addPass(createInlineCallsPass());
  manager.addPass(createImportCallbacksPass());
  manager.addPass(createNormalizeShardingPass());
  manager.addPass(createExpandCHLOPass());
  manager.addPass(createCanonicalizeStableHLOPass());
  manager.addPass(createNormalizeDonationPass());
  manager.addPass(createAnnotatePhasesPass());
  manager.addPass(createAnnotateRolesPass());
  if (chunkSums)
    manager.addPass(createChunkSumsPass());
  manager.addPass(createValidateImportPass());
}

void scalify::registerImportPipeline() {
  PassPipelineRegistration<>(
      "scalify-import", "StableHLO as JAX prints it to the normal form",
      [](OpPassManager &manager) { buildImportPipeline(manager); });
}
