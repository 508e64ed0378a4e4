//===- Stages.h - The order of the stages -----------------------*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_STAGES_H
#define SCALIFY_PIPELINE_STAGES_H

#include "scalify/Target/StableHLO/Passes.h"

#include "mlir/Pass/PassManager.h"

#include <optional>

namespace scalify {

/// In order. `Input` is the text as parsed.
enum class Stage {
  Input,
  Import,
  Scaling,
  Precision,
  Distribution,
  Fusion,
  Codegen,
  Target
};

/// "input", "import", ...
llvm::StringRef stringifyStage(Stage stage);
std::optional<Stage> symbolizeStage(llvm::StringRef name);
/// All names joined by `, `, for diagnostics.
std::string getStageNames();

/// What the stages need to know of the user's wishes.
struct StageOptions {
  /// An op without a rule, or a dot that misses its format, is an error.
  bool strict = false;
  /// A preset in place of the module's recipe; empty for the module's.
  std::string recipe;
  /// What the range analysis is for: "report" or "choose".
  std::string rangeUse = "report";
  /// Arguments without a declared scale count as 2^0, and under `strict` are an
  /// error; else the step measures them.
  bool declaredScales = false;
  /// Report what is left wide, undeclared or without a rule.
  bool remarks = true;
  /// Warn of arguments that each step measures.
  bool tellMeasured = true;
  /// Whether the module's recipe casts; without casts Scaling has no purpose.
  bool casts = true;
  /// StableHLO out: how dots on FP8 data are written.
  FP8Form fp8Form = FP8Form::Wide;
  /// StableHLO out: append the wide value and the scale of each cast.
  bool probeCasts = false;
  /// StableHLO out: append the statistics of all casts.
  bool collectStatistics = false;
  /// State that the recipe narrows is narrow data also between steps.
  bool packState = false;
  /// Of a program for a GPU, at most.
  int64_t streams = 1;
  /// The caller persists state arguments that the compiler adds.
  bool keepsState = true;
  /// The caller gives main a key of random words in each step.
  bool roundingKey = true;
  /// Casts that may outgrow propagated scales measure theirs in each step.
  bool measureUnproved = false;
  /// The runtime counts saturated and flushed values of casts in loops of
  /// unknown length.
  bool countsLoops = true;
  /// The backward computes again what follows from what it keeps.
  bool recompute = false;
  /// Keep in the module which facts each scale came from.
  bool explain = false;
  /// The plan and its kernels are for a GPU, which the module says.
  bool isGPU = false;
  /// Ranks of a partitioned program that one process shall run; 0 for those of
  /// its mesh, none for the program of one device.
  std::optional<int64_t> simulateRanks;
  /// Which attentions of a GPU are calls of its library: "recipe", "exact" or
  /// "none".
  std::string libraryAttention = "recipe";
  /// What is behind a product on a GPU is its library's: "exact", "all" or
  /// "none".
  std::string epilogues = "exact";
  /// See CompileOptions.
  bool callbacks = false;
  std::string fallback;
  /// Collectives run beside what is computed.
  bool overlap = true;
  /// The step is cut over the ranks of a pipeline.
  int64_t pipelineStages = 0, pipelineVirtual = 1, pipelineStage = 0;
  /// Ranks exchange narrow data where values are narrow anyway.
  bool narrowCollectives = true;
  /// Of what a rank gives to a bucket of collectives; 0: none are made.
  int64_t bucketBytes = 0;
  bool orderSums = false;
  /// That gathers add to memory at one time; < 0: all.
  int64_t gatheredBytes = -1;
  /// Collectives on their way at one time; 0: any number.
  int64_t mostInFlight = 0;
};

/// The passes of one stage, its validate pass last. `Target` has none for the
/// CPU, where a function and not a pass writes the artefact.
void buildStage(Stage stage, bool toStableHLO, const StageOptions &options,
                mlir::OpPassManager &manager);

/// The stages that lead to `target` ("cpu" or "stablehlo"), in order.
llvm::ArrayRef<Stage> getStages(bool toStableHLO);

/// Partitioning precedes Import. Shardy's passes are jaxlib's, and run between
/// the first two pipelines; the third follows where there is a level of ZeRO,
/// once the roles that a user gives are set.
struct PartitionOptions {
  /// The level of ZeRO.
  int64_t zero = 0;
  /// Ranks sum the gradients of each micro-batch, and not of all at once.
  bool sumEach = false;
};
void buildBeforeShardy(mlir::OpPassManager &manager);
void buildAfterShardy(const PartitionOptions &options,
                      mlir::OpPassManager &manager);
void buildShardState(const PartitionOptions &options,
                     mlir::OpPassManager &manager);
/// Shards the batch of a step without a mesh over `ranks`.
void buildDataParallel(int64_t ranks, mlir::OpPassManager &manager);

/// Registers the pipelines: `scalify-import`, `scalify-scaling`,
/// `scalify-precision`, `scalify-pipeline`, and those of partitioning.
void registerPipelines();

} // namespace scalify

#endif // SCALIFY_PIPELINE_STAGES_H
