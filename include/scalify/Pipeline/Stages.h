//===- Stages.h - The order of the stages -----------------------*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_STAGES_H
#define SCALIFY_PIPELINE_STAGES_H

#include "scalify/Target/StableHLO/Passes.h"

#include "mlir/Pass/PassManager.h"

#include <optional>

namespace scalify {

/// The stages in order. `Input` is the parsed text.
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
/// Returns all names joined by `, `, for diagnostics.
std::string getStageNames();

/// The compile options that the stages read.
struct StageOptions {
  /// An op without a rule, or a dot that does not get its format, is an error.
  bool strict = false;
  /// A preset that replaces the module's recipe; empty for the module's.
  std::string recipe;
  /// Use of the range analysis: "report" or "choose".
  std::string rangeUse = "report";
  /// Arguments without a declared scale count as 2^0, and are an error under
  /// `strict`. Otherwise the step measures them.
  bool declaredScales = false;
  /// Emit remarks for wide dots, undeclared arguments and ops without a rule.
  bool remarks = true;
  /// Warn about arguments that each step measures.
  bool tellMeasured = true;
  /// Whether the module's recipe casts; without casts Scaling is skipped.
  bool casts = true;
  /// StableHLO out: the form of dots on FP8 data.
  FP8Form fp8Form = FP8Form::Wide;
  /// StableHLO out: return also the wide value and the scale of each cast.
  bool probeCasts = false;
  /// StableHLO out: return also the statistics of all casts.
  bool collectStatistics = false;
  /// State that the recipe narrows stays narrow between steps.
  bool packState = false;
  /// The largest number of streams of a GPU's program.
  int64_t streams = 1;
  /// The caller persists the state arguments that the compiler adds.
  bool keepsState = true;
  /// The caller passes a key of random words to main in each step.
  bool roundingKey = true;
  /// Casts that may outgrow propagated scales measure their scales in each
  /// step.
  bool measureUnproved = false;
  /// The runtime counts saturated and flushed values of casts in loops of
  /// unknown trip count.
  bool countsLoops = true;
  /// Recompute in the backward what follows from the values that it keeps.
  bool recompute = false;
  /// Keep in the module the facts from which each scale was derived.
  bool explain = false;
  /// The plan and its kernels are for a GPU, as the module's target says.
  bool isGPU = false;
  /// The number of ranks of a partitioned program that one process runs; 0:
  /// those of its mesh; unset: the program of one device.
  std::optional<int64_t> simulateRanks;
  /// The attentions of a GPU that become library calls: "recipe", "exact" or
  /// "none".
  std::string libraryAttention = "recipe";
  /// The epilogues of a GPU's products that the library computes: "exact",
  /// "all" or "none".
  std::string epilogues = "exact";
  /// See CompileOptions.
  bool callbacks = false;
  std::string fallback;
  /// Overlap collectives with compute.
  bool overlap = true;
  /// The step is cut into stages over the ranks of a pipeline.
  int64_t pipelineStages = 0, pipelineVirtual = 1, pipelineStage = 0;
  /// Ranks exchange narrow data where values are narrow anyway.
  bool narrowCollectives = true;
  /// Bytes that one rank contributes to a bucket of collectives; 0: no buckets.
  int64_t bucketBytes = 0;
  bool orderSums = false;
  /// The most bytes that gathers may add to memory at one time; < 0: no limit.
  int64_t gatheredBytes = -1;
  /// The largest number of collectives in flight; 0: no limit.
  int64_t mostInFlight = 0;
};

/// Adds the passes of one stage, its validation pass last. `Target` has no
/// passes for the CPU: a function writes the artefact.
void buildStage(Stage stage, bool toStableHLO, const StageOptions &options,
                mlir::OpPassManager &manager);

/// Returns the stages up to StableHLO out or to an artefact, in order.
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
