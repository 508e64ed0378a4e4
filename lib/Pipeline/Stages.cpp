//===- Stages.cpp - The order of the stages -------------------------------===//
//
// The only file that knows the order of the stages. Pipelines.cpp has their
// passes.
//
//===----------------------------------------------------------------------===//

#include "scalify/Pipeline/Stages.h"

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
                      llvm::cl::desc("make a fallback an error"),
                      llvm::cl::init(false)};
  Option<bool> declaredScales{
      *this, "declared-scales",
      llvm::cl::desc("arguments without a declared scale count as 2^0, and the "
                     "step measures none"),
      llvm::cl::init(false)};
  Option<bool> remarks{*this, "remarks", llvm::cl::desc("report fallbacks"),
                       llvm::cl::init(true)};
  Option<std::string> rangeUse{
      *this, "range-use",
      llvm::cl::desc("use of the range analysis: report or choose"),
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
      llvm::cl::desc("the form of dots on FP8 data (with stablehlo)"),
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
                       llvm::cl::desc("record the sources of each scale, for "
                                      "--scalify-report"),
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
  result.fp8Form = stringifyFP8Form(options.fp8Form).str();
  result.probeCasts = options.probeCasts;
  result.collectStatistics = options.collectStatistics;
  result.explain = options.explain;
  return result;
}

/// Adds the passes of some stages, in their order.
static void buildStages(ArrayRef<Stage> stages, OpPassManager &manager,
                        const StagePipelineOptions &options) {
  for (Stage stage : stages)
    buildStage(stage, options.stablehlo, getStageOptions(options), manager);
}

namespace {
struct PartitionPipelineOptions
    : PassPipelineOptions<PartitionPipelineOptions> {
  Option<int64_t> zero{*this, "zero", llvm::cl::desc("level of ZeRO, 0 to 3"),
                       llvm::cl::init(0)};
  Option<bool> sumEach{*this, "sum-each",
                       llvm::cl::desc("sum the gradients of each micro-batch "
                                      "over ranks, not of all at once"),
                       llvm::cl::init(false)};
};
} // namespace

static void registerPartitionPipelines() {
  static PassPipelineRegistration<> before(
      "scalify-before-shardy", "flatten a sharded program for Shardy",
      buildBeforeShardy);
  static PassPipelineRegistration<> between(
      "scalify-between-shardy",
      "replicate values that have no equal, independent shards",
      buildBetweenShardy);
  static PassPipelineRegistration<PartitionPipelineOptions> after(
      "scalify-after-shardy",
      "convert Shardy's output to the program of one device",
      [](OpPassManager &manager, const PartitionPipelineOptions &options) {
        buildAfterShardy({options.zero, options.sumEach}, manager);
      });
  static PassPipelineRegistration<PartitionPipelineOptions> zero(
      "scalify-zero", "shard state that ranks replicate",
      [](OpPassManager &manager, const PartitionPipelineOptions &options) {
        buildShardState({options.zero, options.sumEach}, manager);
      });
  static PassPipelineRegistration<> roles(
      "scalify-find-roles", "find the roles of the arguments of a step",
      buildFindRoles);
}

namespace {
struct ImportPipelineOptions : PassPipelineOptions<ImportPipelineOptions> {
  ListOption<std::string> argShapes{
      *this, "arg-shapes",
      llvm::cl::desc("shapes of arguments of dynamic shape, name=4x8")};
};
} // namespace

void scalify::registerPipelines() {
  registerPartitionPipelines();
  static PassPipelineRegistration<ImportPipelineOptions> import(
      "scalify-import", "StableHLO as JAX prints it to the normal form",
      [](OpPassManager &manager, const ImportPipelineOptions &options) {
        StageOptions stage;
        stage.argShapes.assign(options.argShapes.begin(),
                               options.argShapes.end());
        buildStage(Stage::Import, /*toStableHLO=*/true, stage, manager);
      });
  static PassPipelineRegistration<StagePipelineOptions> scaling(
      "scalify-scaling",
      "the Scaling stage: scales of dot operands, proved safe or not",
      [](OpPassManager &manager, const StagePipelineOptions &options) {
        buildStages(Stage::Scaling, manager, options);
      });
  static PassPipelineRegistration<StagePipelineOptions> precision(
      "scalify-precision", "the Precision stage: formats and casts",
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
