//===- Pipeline.cpp - The order of the fusion stage -----------------------===//

#include "scalify/Fusion/Passes.h"
#include "scalify/Precision/Passes.h"

#include "mlir/Pass/PassManager.h"

void scalify::buildFusionPipeline(mlir::OpPassManager &pm, bool isGPU,
                                  int64_t streams,
                                  llvm::StringRef libraryAttention,
                                  bool overlap, const PipelineOptions &pipeline,
                                  llvm::StringRef epilogues,
                                  int64_t gatheredBytes, int64_t mostInFlight) {
  mlir::OpPassManager &loops = pm.nest<mlir::func::FuncOp>();
  loops.addPass(createFormCollectives());
  loops.addPass(createUnrollLoops());
  loops.addPass(createOrderHostCalls());
  // A stage of a pipeline knows its own arguments alone.
  if (pipeline.stages == 0)
    pm.addPass(createKeepAmaxes());
  pm.nest<mlir::func::FuncOp>().addPass(createSplitStacks());
  if (pipeline.stages == 0)
    pm.addPass(createGatherAgain({gatheredBytes}));
  mlir::OpPassManager &functions = pm.nest<mlir::func::FuncOp>();
  functions.addPass(createExpandConvolutions());
  functions.addPass(createExpandWindows());
  functions.addPass(createExpandSorts());
  functions.addPass(createExpandBits());
  functions.addPass(createExpandScatters());
  // On a CPU casts are a larger part of the step.
  if (isGPU)
    functions.addPass(createRecomputeCasts());
  functions.addPass(createPreparePlan());
  if (isGPU) {
    functions.addPass(createNarrowDots());
    if (libraryAttention != "none")
      functions.addPass(createFormAttention({libraryAttention.str()}));
  }
  functions.addPass(createFormGemms());
  // What no product reads with its scales.
  if (isGPU)
    pm.addPass(createExpandBlocks());
  PlaceStagesOptions stages;
  stages.stages = pipeline.stages;
  stages.virtualChunks = pipeline.virtualChunks;
  pm.addPass(createPlaceStages(stages));
  if (isGPU && epilogues != "none")
    pm.nest<mlir::func::FuncOp>().addPass(
        createFormEpilogues({epilogues.str()}));
  pm.addPass(createFormPlan());
  if (pipeline.stages > 0) {
    pm.addPass(createSplitStages());
    TakeStageOptions own;
    own.stage = pipeline.stage;
    pm.addPass(createTakeStage(own));
  }
  pm.addPass(createBindSlices());
  if (isGPU && streams > 1) {
    AssignStreamsOptions concurrency;
    concurrency.streams = streams;
    pm.addPass(createAssignStreams(concurrency));
  }
  if (overlap)
    pm.addPass(createOverlapCollectives({isGPU, mostInFlight}));
  pm.addPass(createProveExchanges());
  pm.addPass(createAssignBuffers());
}
