//===- Stages.cpp - The order of the stages -------------------------------===//
//
// The only file that knows which stage follows which. Each stage brings its
// own pipeline, which ends in the pass that validates its contract;
// that of Distribution has none: what it leaves has the form of what it got.
//
//===----------------------------------------------------------------------===//

#include "scalify/Pipeline/Stages.h"

#include "scalify/Codegen/Passes.h"
#include "scalify/Distribution/Passes.h"
#include "scalify/Fusion/Passes.h"
#include "scalify/Import/Passes.h"
#include "scalify/Precision/Passes.h"
#include "scalify/Scaling/Passes.h"
#include "scalify/Target/StableHLO/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace scalify;

static constexpr Stage kToCPU[] = {
    Stage::Import, Stage::Scaling, Stage::Precision, Stage::Distribution,
    Stage::Fusion, Stage::Codegen, Stage::Target};
static constexpr Stage kToStableHLO[] = {Stage::Import, Stage::Scaling,
                                         Stage::Precision, Stage::Distribution,
                                         Stage::Target};

ArrayRef<Stage> scalify::getStages(bool toStableHLO) {
  if (toStableHLO)
    return kToStableHLO;
  return kToCPU;
}

static void buildImport(bool toStableHLO, OpPassManager &manager) {
  buildImportPipeline(manager, /*chunkSums=*/!toStableHLO);
}

static void buildScaling(const StageOptions &options, OpPassManager &manager) {
  // The scales would only be computed to be thrown away.
  if (!options.casts)
    return;
  manager.addPass(createJudgePlainForm());
  manager.addPass(createWidenValues());
  ScalingOptions scaling;
  scaling.strict = options.strict;
  scaling.declared = options.declaredScales;
  scaling.remarks = options.remarks;
  scaling.tellMeasured = options.tellMeasured;
  scaling.explain = options.explain;
  buildScalingPipeline(manager, scaling);
  manager.addPass(createAnalyseRanges());
}

static void buildPrecision(const StageOptions &options,
                           OpPassManager &manager) {
  PrecisionOptions precision;
  precision.recipe = options.recipe;
  precision.strict = options.strict;
  precision.remarks = options.remarks;
  precision.rangeUse = options.rangeUse;
  precision.packState = options.packState;
  precision.keepsState = options.keepsState;
  precision.roundingKey = options.roundingKey;
  precision.recompute = options.recompute;
  precision.measureUnproved = options.measureUnproved;
  precision.countsLoops = options.countsLoops;
  buildPrecisionPipeline(manager, precision);
}

static void buildDistribution(const StageOptions &options,
                              OpPassManager &manager) {
  DistributionOptions distribution;
  distribution.simulateRanks = options.simulateRanks;
  distribution.narrowCollectives = options.narrowCollectives;
  distribution.sliceStacks = options.pipelineStages == 0;
  distribution.bucketBytes = options.bucketBytes;
  distribution.bucketsByChunk = options.pipelineStages > 0;
  distribution.orderSums = options.orderSums;
  buildDistributionPipeline(manager, distribution);
  // Which elements a cast counts is known once ranks exchange what they do.
  manager.addPass(createLimitRescale());
}

static void buildStableHLO(const StageOptions &options,
                           OpPassManager &manager) {
  manager.addPass(createExpandBlocks());
  if (options.collectStatistics)
    manager.addPass(createCollectStatistics());
  ExportStableHLOOptions target;
  target.fp8Form = options.fp8Form;
  target.probeCasts = options.probeCasts;
  manager.addPass(createExportStableHLO(target));
}

static void buildFusion(const StageOptions &options, OpPassManager &manager) {
  ExpandBlocksOptions blocks;
  blocks.keepDequantized = options.isGPU;
  manager.addPass(createExpandBlocks(blocks));
  manager.addPass(createExpandRounding());
  FormHostCallsOptions calls;
  calls.callbacks = options.callbacks;
  calls.fallback = options.fallback;
  manager.nest<func::FuncOp>().addPass(createFormHostCalls(calls));
  buildFusionPipeline(
      manager, options.isGPU, options.streams, options.libraryAttention,
      options.overlap,
      {options.pipelineStages, options.pipelineVirtual, options.pipelineStage},
      options.epilogues, options.gatheredBytes, options.mostInFlight);
}

static void buildCodegen(const StageOptions &options, OpPassManager &manager) {
  manager.addPass(createLowerKernels());
}

void scalify::buildStage(Stage stage, bool toStableHLO,
                         const StageOptions &options, OpPassManager &manager) {
  switch (stage) {
  case Stage::Import:
    return buildImport(toStableHLO, manager);
  case Stage::Scaling:
    return buildScaling(options, manager);
  case Stage::Precision:
    return buildPrecision(options, manager);
  case Stage::Distribution:
    return buildDistribution(options, manager);
  case Stage::Target:
    if (toStableHLO)
      buildStableHLO(options, manager);
    return;
  case Stage::Fusion:
    return buildFusion(options, manager);
  case Stage::Codegen:
    return buildCodegen(options, manager);
  case Stage::Input:
    return;
  }
}

static constexpr StringLiteral kStageNames[] = {
    "input",        "import", "scaling", "precision",
    "distribution", "fusion", "codegen", "target"};

StringRef scalify::stringifyStage(Stage stage) {
  return kStageNames[static_cast<unsigned>(stage)];
}

std::optional<Stage> scalify::symbolizeStage(StringRef name) {
  for (auto [index, stage] : llvm::enumerate(kStageNames))
    if (stage == name)
      return static_cast<Stage>(index);
  return std::nullopt;
}

std::string scalify::getStageNames() {
  return llvm::join(ArrayRef(kStageNames), ", ");
}

namespace {
struct StagePipelineOptions : PassPipelineOptions<StagePipelineOptions> {
  Option<bool> strict{*this, "strict",
                      llvm::cl::desc("make what falls back an error"),
                      llvm::cl::init(false)};
  Option<bool> declaredScales{
      *this, "declared-scales",
      llvm::cl::desc("arguments without a declared scale count as 2^0, and the "
                     "step measures none"),
      llvm::cl::init(false)};
  Option<bool> remarks{*this, "remarks",
                       llvm::cl::desc("report what falls back"),
                       llvm::cl::init(true)};
  Option<std::string> rangeUse{
      *this, "range-use",
      llvm::cl::desc("what the range analysis is for: report or choose"),
      llvm::cl::init("report")};
  Option<std::string> recipe{*this, "recipe",
                             llvm::cl::desc("a preset's name; the module's "
                                            "scalify.recipe if empty"),
                             llvm::cl::init("")};
  Option<bool> stablehlo{*this, "stablehlo",
                         llvm::cl::desc("end in plain StableHLO"),
                         llvm::cl::init(false)};
  Option<FP8Form> fp8Form{
      *this, "fp8-form",
      llvm::cl::desc("how dots on FP8 data are written (with stablehlo)"),
      llvm::cl::init(FP8Form::Wide),
      llvm::cl::values(
          clEnumValN(FP8Form::Wide, "wide", "F32 dots"),
          clEnumValN(FP8Form::XLAGPU, "xla-gpu", "the pattern of XLA:GPU"),
          clEnumValN(FP8Form::Plain, "plain", "FP8 dots"))};
  Option<bool> probeCasts{*this, "probe-casts",
                          llvm::cl::desc("also return each cast's wide value "
                                         "and scale (with stablehlo)"),
                          llvm::cl::init(false)};
  Option<bool> collectStatistics{*this, "collect-statistics",
                                 llvm::cl::desc("also return statistics of "
                                                "the casts (with stablehlo)"),
                                 llvm::cl::init(false)};
  Option<bool> explain{*this, "explain",
                       llvm::cl::desc("keep which facts each scale came from, "
                                      "for --scalify-report"),
                       llvm::cl::init(false)};
};
} // namespace

static StageOptions getStageOptions(const StagePipelineOptions &options) {
  StageOptions result;
  result.recipe = options.recipe;
  result.rangeUse = options.rangeUse;
  result.strict = options.strict;
  result.declaredScales = options.declaredScales;
  result.remarks = options.remarks;
  result.fp8Form = options.fp8Form;
  result.probeCasts = options.probeCasts;
  result.collectStatistics = options.collectStatistics;
  result.explain = options.explain;
  return result;
}

/// The passes of some stages, in their order.
static void buildStages(ArrayRef<Stage> stages, OpPassManager &manager,
                        const StagePipelineOptions &options) {
  for (Stage stage : stages)
    buildStage(stage, options.stablehlo, getStageOptions(options), manager);
}

void scalify::registerPipelines() {
  static PassPipelineRegistration<StagePipelineOptions> scaling(
      "scalify-scaling",
      "the Scaling stage: propagate, apply rescales, validate",
      [](OpPassManager &manager, const StagePipelineOptions &options) {
        buildStages(Stage::Scaling, manager, options);
      });
  static PassPipelineRegistration<StagePipelineOptions> precision(
      "scalify-precision", "the Precision stage: quantize, validate",
      [](OpPassManager &manager, const StagePipelineOptions &options) {
        buildStages(Stage::Precision, manager, options);
      });
  static PassPipelineRegistration<StagePipelineOptions> whole(
      "scalify-pipeline",
      "Import to Distribution; with stablehlo=true also StableHLO out",
      [](OpPassManager &manager, const StagePipelineOptions &options) {
        ArrayRef<Stage> stages = getStages(/*toStableHLO=*/true);
        buildStages(options.stablehlo ? stages : stages.drop_back(), manager,
                    options);
      });
}
