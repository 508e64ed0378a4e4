//===- ImportPipeline.cpp - The passes of Import, in their order ----------===//
//
// A library of its own, for what needs no other stage: make fuzz builds it
// without them.
//
//===----------------------------------------------------------------------===//

#include "ImportPipeline.h"

#include "scalify/Import/Passes.h"
#include "scalify/Pipeline/Stages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace scalify;

void scalify::buildFlat(OpPassManager &module) {
  module.addPass(createInlineCallsPass());
  module.addPass(createFlattenTuplesPass());
  module.addPass(createNormalizeShardingPass());
  module.addPass(createExpandCHLOPass());
}

void scalify::buildRoles(OpPassManager &module) {
  module.addPass(createCanonicalizeStableHLOPass());
  module.addPass(createNormalizeDonationPass());
  module.addPass(createAnnotatePhasesPass());
  module.addPass(createAlignDonationPass());
  module.addPass(createAnnotateRolesPass());
}

void scalify::buildImport(bool isForXLA, const StageOptions &options,
                          OpPassManager &module) {
  module.addPass(createCheckInputPass());
  module.addPass(createInlineCallsPass());
  module.addPass(createFlattenTuplesPass());
  RefineShapesPassOptions shapes;
  shapes.argShapes.assign(options.argShapes.begin(), options.argShapes.end());
  module.addPass(createRefineShapesPass(shapes));
  module.nest<func::FuncOp>().addPass(createCheckOpsPass());
  module.addPass(createImportCallbacksPass());
  if (!isForXLA)
    module.addPass(createImportChecksPass());
  module.addPass(createNormalizeShardingPass());
  module.addPass(createExpandCHLOPass());
  // XLA computes complex numbers itself, and chooses its own order of sums.
  if (!isForXLA) {
    module.addPass(createImportSignaturePass());
    module.addPass(createWidenIntegersPass());
    module.addPass(createSplitComplexPass());
  }
  buildRoles(module);
  if (options.returnGradients)
    module.addPass(createReturnGradientsPass());
  if (!isForXLA)
    module.addPass(createChunkSumsPass());
  module.addPass(createValidateImportPass());
}
