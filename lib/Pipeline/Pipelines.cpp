//===- Pipelines.cpp - All passes, in their order -------------------------===//
//
// A pass runs in the stage of its folder, with one exception that states its
// reason. Import, Scaling and Precision have a pass that validates their
// contract; Distribution preserves the form of its input.
//
//===----------------------------------------------------------------------===//

#include "ImportPipeline.h"
#include "scalify/Pipeline/Stages.h"

#include "scalify/Codegen/Passes.h"
#include "scalify/Distribution/Passes.h"
#include "scalify/Fusion/Passes.h"
#include "scalify/Import/Passes.h"
#include "scalify/Precision/Passes.h"
#include "scalify/Scaling/Passes.h"
#include "scalify/Target/Artefact/Passes.h"
#include "scalify/Target/StableHLO/Passes.h"

#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace scalify;

void scalify::buildBeforeShardy(OpPassManager &module) {
  buildFlat(module);
  module.addPass(createHideMarksPass());
}

void scalify::buildBetweenShardy(OpPassManager &module) {
  module.addPass(createEvenShardingsPass());
  module.addPass(createGatherUnshardablePass());
}

void scalify::buildAfterShardy(const PartitionOptions &options,
                               OpPassManager &module) {
  module.addPass(createLocalizePass());
  module.addPass(createRestoreMarksPass());
  // Shares are found after loops, and summed in them afterwards.
  if (!options.sumEach || options.zero > 0)
    module.addPass(createSumBehindLoopsPass({/*stacks=*/options.zero > 0}));
  if (options.zero > 0)
    buildRoles(module);
}

void scalify::buildShardState(const PartitionOptions &options,
                              OpPassManager &module) {
  module.addPass(createShardStatePass({options.zero}));
  if (options.sumEach)
    module.addPass(createScatterInLoopsPass());
}

void scalify::buildFindRoles(OpPassManager &module) {
  buildFlat(module);
  buildRoles(module);
}

static PlaceRescalesOptions getPlaceRescales(const StageOptions &options) {
  PlaceRescalesOptions place;
  place.strict = options.strict;
  return place;
}

static PropagateScalesOptions getPropagateScales(const StageOptions &options) {
  PropagateScalesOptions propagate;
  propagate.strict = options.strict;
  propagate.remarks = options.remarks;
  propagate.declared = options.declaredScales;
  propagate.explain = options.explain;
  return propagate;
}

static ApplyRescalesOptions getApplyRescales(const StageOptions &options) {
  ApplyRescalesOptions apply;
  apply.strict = options.strict;
  apply.remarks = options.remarks;
  apply.tellMeasured = options.remarks && options.tellMeasured;
  return apply;
}

static DecideFormatsOptions getDecideFormats(const StageOptions &options) {
  DecideFormatsOptions decide;
  decide.preset = options.recipe;
  decide.strict = options.strict;
  decide.remarks = options.remarks;
  decide.measureUnproved = options.measureCasts;
  // A GPU multiplies FP8 faster than BF16: a guess does not outweigh that.
  decide.stays = options.formatsStay && !options.isGPU();
  decide.noiseExponent = options.noiseExponent;
  decide.countsLoops = options.countsLoops;
  decide.rangeUse = options.rangeUse;
  return decide;
}

static QuantizeDotsOptions getQuantizeDots(const StageOptions &options) {
  QuantizeDotsOptions quantize;
  quantize.strict = options.strict;
  quantize.recompute = options.recompute;
  quantize.roundingKey = options.roundingKey;
  quantize.measureUnproved = options.measureCasts;
  return quantize;
}

/// The passes that write scales where they are used.
static void buildScales(const StageOptions &options, OpPassManager &module) {
  module.addPass(createWidenValues());
  if (!options.declaredScales)
    module.addPass(createMeasureArguments());
  module.addPass(createPlaceRescales(getPlaceRescales(options)));
  module.addPass(createPropagateScales(getPropagateScales(options)));
  module.addPass(createApplyRescales(getApplyRescales(options)));
}

/// Delayed scaling decides on a clone of the step, which gets its own scales.
static std::unique_ptr<Pass>
makeJudgePlainForm(const DecideFormatsOptions &decide) {
  StageOptions options;
  options.remarks = false;
  OpPassManager scaling(ModuleOp::getOperationName());
  // The clone has lost its phases, so that recomputation merges.
  scaling.addPass(createAnnotatePhasesPass());
  buildScales(options, scaling);
  return createJudgePlainForm({{scaling}, decide.stays, decide.noiseExponent});
}

static void buildScaling(const StageOptions &options, OpPassManager &module) {
  // Without casts nothing uses the scales.
  if (!options.casts)
    return;
  // Of Precision, but it clones the step as Import leaves it, with the user's
  // hints of scales.
  module.addPass(makeJudgePlainForm(getDecideFormats(options)));
  buildScales(options, module);
  module.addPass(createValidateScales());
  module.addPass(createAnalyseRanges());
}

static void buildPrecision(const StageOptions &options, OpPassManager &module) {
  buildDecisions(options, module);
  module.addPass(createQuantizeDots(getQuantizeDots(options)));
  module.addPass(createExpandMeasuredScales());
  module.addPass(createDelayScales());
  module.addPass(createScaleGradients({options.keepsState}));
  if (options.packState)
    module.addPass(createStoreState());
  module.addPass(createCountSteps());
  module.addPass(createValidatePrecision());
}

void scalify::buildDecisions(const StageOptions &options,
                             OpPassManager &module) {
  module.addPass(createDecideFormats(getDecideFormats(options)));
}

void scalify::buildKeptScales(const PlainOptions &options,
                              OpPassManager &module) {
  if (options.adaptScales)
    module.addPass(createAdaptScales());
  if (options.carriesScales())
    module.addPass(createCarryScales({/*marked=*/true}));
}

static void buildDistribution(const StageOptions &options,
                              OpPassManager &module) {
  // One process sends no messages. The slices of a pipeline belong to several
  // stages.
  bool isOneProcess = options.simulateRanks.has_value();
  bool slices = options.pipelineStages == 0 && !isOneProcess;
  if (slices)
    module.addPass(createSliceCollectivesPass({/*gathers=*/false}));
  if (options.narrowCollectives)
    module.addPass(createNarrowCollectivesPass());
  if (isOneProcess)
    module.addPass(createSimulateRanksPass({*options.simulateRanks}));
  // Narrow first, so that all readers of a gather cast it identically.
  if (slices)
    module.addPass(createSliceCollectivesPass({/*gathers=*/true}));
  if (!isOneProcess)
    module.addPass(createBucketCollectivesPass(
        {options.bucketBytes, /*byChunk=*/options.pipelineStages > 0}));
  if (!isOneProcess && options.orderSums)
    module.addPass(createOrderSumsPass());
  // The passes above may move casts, and so change the elements that they
  // count.
  module.addPass(createLimitRescale());
}

static void buildCodegen(OpPassManager &module) {
  module.addPass(createLowerKernels());
  OpPassManager &kernels = module.nest<func::FuncOp>();
  kernels.addPass(createExpandMath());
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
}

static void buildArtefact(const StageOptions &options, OpPassManager &module) {
  module.addPass(createOutlineKernels());
  if (options.planOnly)
    return;
  const Target *device = options.device ? options.device : findTarget(kCPU);
  device->buildLowering(module.nest<ModuleOp>());
}

static void buildStableHLO(const StageOptions &options, OpPassManager &module) {
  if (options.collectStatistics)
    module.addPass(createCollectStatistics());
  module.addPass(createExportStableHLO(
      {*symbolizeFP8Form(options.fp8Form), options.probeCasts}));
}

/// The most ops of all iterations of a loop that a plan unrolls.
/// Unrolling buys constant indices, and costs time to compile; a loop of the
/// plan runs as fast (docs/stages/fusion.md).
static constexpr int64_t kMaxUnrolledOps = 4096;

static void buildFusion(const StageOptions &options, OpPassManager &module) {
  bool isGPU = options.isGPU();
  module.addPass(createExpandBlocks({/*keepDequantized=*/true}));
  module.addPass(createExpandRounding());
  OpPassManager &calls = module.nest<func::FuncOp>();
  calls.addPass(createExpandFourier());
  // May make loops.
  calls.addPass(createSplitScatters());
  calls.addPass(createFormHostCalls({options.callbacks, options.fallback}));
  if (!isGPU)
    calls.addPass(createFormLapack());
  calls.addPass(createFormCollectives());
  // The tasks of a pipeline are those of unrolled micro-batches.
  if (options.pipelineStages == 0) {
    // A counter of an unrolled loop may be the trip count of an inner one.
    UnrollLoopsOptions unroll;
    unroll.maxLoopOps = kMaxUnrolledOps;
    module.nest<func::FuncOp>().addPass(createUnrollLoops(unroll));
    module.addPass(createOutlineLoops({kMaxUnrolledOps}));
  }
  OpPassManager &loops = module.nest<func::FuncOp>();
  loops.addPass(createUnrollLoops());
  loops.addPass(createOrderHostCalls());
  module.addPass(createBindLoopSlices());
  // A pipeline stage knows only its own arguments.
  if (options.pipelineStages == 0)
    module.addPass(createKeepAmaxes());
  module.nest<func::FuncOp>().addPass(createSplitStacks());
  if (options.pipelineStages == 0)
    module.addPass(createGatherAgain({options.gatheredBytes}));
  OpPassManager &ops = module.nest<func::FuncOp>();
  ops.addPass(createExpandRaggedDots());
  ops.addPass(createExpandConvolutions());
  ops.addPass(createExpandWindows());
  ops.addPass(createExpandSorts());
  ops.addPass(createExpandBits());
  ops.addPass(createExpandScatters());
  // On a GPU one block would store the whole update.
  if (!isGPU)
    ops.addPass(createExpandUpdates());
  // On a CPU casts are a larger part of the step.
  if (isGPU)
    ops.addPass(createRecomputeCasts());
  ops.addPass(createPreparePlan());
  ops.addPass(createNarrowDots());
  if (isGPU && options.libraryAttention != "none")
    ops.addPass(createFormAttention({options.libraryAttention}));
  ops.addPass(createFormGemms());
  // Expands block scales that no product reads.
  module.addPass(createExpandBlocks());
  module.addPass(
      createPlaceStages({options.pipelineStages, options.pipelineVirtual}));
  if (isGPU && options.epilogues != "none")
    module.nest<func::FuncOp>().addPass(
        createFormEpilogues({options.epilogues}));
  module.addPass(createFormPlan());
  if (options.pipelineStages > 0) {
    module.addPass(createSplitStages());
    module.addPass(createTakeStage({options.pipelineStage}));
  }
  module.addPass(createBindSlices());
  if (isGPU && options.streams > 1)
    module.addPass(createAssignStreams({options.streams}));
  if (options.overlap)
    module.addPass(createOverlapCollectives({isGPU, options.mostInFlight}));
  module.addPass(createProveExchanges());
  if (!isGPU) {
    module.addPass(createTileCommands());
    module.addPass(createRecomputeTiles());
  }
  module.addPass(createAssignBuffers());
}

void scalify::buildStage(Stage stage, bool toStableHLO,
                         const StageOptions &options, OpPassManager &module) {
  switch (stage) {
  case Stage::Import:
    return buildImport(/*isForXLA=*/toStableHLO, options, module);
  case Stage::Scaling:
    return buildScaling(options, module);
  case Stage::Precision:
    return buildPrecision(options, module);
  case Stage::Distribution:
    return buildDistribution(options, module);
  case Stage::Fusion:
    return buildFusion(options, module);
  case Stage::Codegen:
    return buildCodegen(module);
  case Stage::Target:
    return toStableHLO ? buildStableHLO(options, module)
                       : buildArtefact(options, module);
  case Stage::Input:
    return;
  }
}
