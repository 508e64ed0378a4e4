//===- Stages.h - The order of the stages -----------------------*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_STAGES_H
#define SCALIFY_PIPELINE_STAGES_H

#include "scalify/Dialect/Scalify/Targets.h"
#include "scalify/Pipeline/PlainOptions.h"

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
struct StageOptions : PlainOptions {
  /// Emit remarks for wide dots, undeclared arguments and ops without a rule.
  bool remarks = true;
  /// Whether the module's recipe casts; without casts Scaling is skipped.
  bool casts = true;
  /// The caller persists the state arguments that the compiler adds.
  bool keepsState = true;
  /// The runtime counts saturated and flushed values of casts in loops of
  /// unknown trip count.
  bool countsLoops = true;
  /// Recompute in the backward what follows from the values that it keeps.
  bool recompute = false;
  /// Keep in the module the facts from which each scale was derived.
  bool explain = false;
  /// The module's target; the CPU if null.
  const Target *device = nullptr;
  bool isGPU() const { return device && device->getInfo().isGPU; }
  /// The number of ranks of a partitioned program that one process runs; 0:
  /// those of its mesh; unset: the program of one device.
  std::optional<int64_t> simulateRanks;
  /// Bytes that one rank contributes to a bucket of collectives; 0: no buckets.
  int64_t bucketBytes = 0;
  bool orderSums = false;
  /// The most bytes that gathers may add to memory at one time; < 0: no limit.
  int64_t gatheredBytes = -1;
  /// The largest number of collectives in flight; 0: no limit.
  int64_t mostInFlight = 0;
};

/// Adds the passes of one stage, its validation pass last. After those of
/// `Target` for a device, the device writes the artefact.
void buildStage(Stage stage, bool toStableHLO, const StageOptions &options,
                mlir::OpPassManager &manager);

/// Those of Import, which needs no other stage.
void buildImport(bool isForXLA, const StageOptions &options,
                 mlir::OpPassManager &manager);

/// Returns the stages up to StableHLO out or to an artefact, in order.
llvm::ArrayRef<Stage> getStages(bool toStableHLO);

/// The pass of Precision that decides the formats of dots.
void buildDecisions(const StageOptions &options, mlir::OpPassManager &manager);

/// The passes of Precision that make scales of casts state of main. They follow
/// the report, which has the casts' initial scales.
void buildKeptScales(const PlainOptions &options, mlir::OpPassManager &manager);

/// Partitioning precedes Import. Shardy's passes are jaxlib's: it propagates
/// shardings between the first two pipelines, and inserts collectives between
/// the second and the third. The last one follows where there is a level of
/// ZeRO, once the roles that a user gives are set.
struct PartitionOptions {
  /// The level of ZeRO.
  int64_t zero = 0;
  /// Ranks sum the gradients of each micro-batch, and not of all at once.
  bool sumEach = false;
};
void buildBeforeShardy(mlir::OpPassManager &manager);
void buildBetweenShardy(mlir::OpPassManager &manager);
void buildAfterShardy(const PartitionOptions &options,
                      mlir::OpPassManager &manager);
void buildShardState(const PartitionOptions &options,
                     mlir::OpPassManager &manager);
/// Finds the roles of the arguments of a step without a mesh, for
/// scalify-shard-batch.
void buildFindRoles(mlir::OpPassManager &manager);

/// Registers the pipelines: `scalify-import`, `scalify-scaling`,
/// `scalify-precision`, `scalify-pipeline`, and those of partitioning.
void registerPipelines();

} // namespace scalify

#endif // SCALIFY_PIPELINE_STAGES_H
