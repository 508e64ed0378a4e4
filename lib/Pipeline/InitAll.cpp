//===- InitAll.cpp - Registers every Scalify dialect and pass -------------===//

#include "scalify/Pipeline/InitAll.h"

#include "scalify/Codegen/Passes.h"
#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/Check/Check.h"
#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Distribution/Passes.h"
#include "scalify/Fusion/Passes.h"
#include "scalify/Idioms/Passes.h"
#include "scalify/Import/Passes.h"
#include "scalify/Pipeline/Stages.h"
#include "scalify/Precision/Passes.h"
#include "scalify/Scaling/Passes.h"
#include "scalify/Scaling/Rules.h"
#include "scalify/Target/AllTargets.h"
#include "scalify/Target/Artefact/Passes.h"
#include "scalify/Target/CPU/Passes.h"
#include "scalify/Target/CUDA/Passes.h"
#include "scalify/Target/StableHLO/Passes.h"

#include "mlir/IR/DialectRegistry.h"

void scalify::registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<stablehlo::StableHLODialect>();
  registry.insert<chlo::CHLODialect>();
  registry.insert<check::CheckDialect>();
  registry.insert<sdy::SdyDialect>();
  registry.insert<ScalifyDialect>();
  registry.insert<plan::PlanDialect>();
  registerScaleRules(registry);
  registerAllTargets();
}

void scalify::registerAllPasses() {
  registerImportPasses();
  registerIdiomsPasses();
  registerScalingPasses();
  registerPrecisionPasses();
  registerTargetStableHLOPasses();
  registerDistributionPasses();
  registerFusionPasses();
  registerCodegenPasses();
  registerTargetArtefactPasses();
  registerTargetCPUPasses();
  registerTargetCUDAPasses();
  registerPipelines();
}
