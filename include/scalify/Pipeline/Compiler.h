//===- Compiler.h - From StableHLO text to an artefact ----------*- C++ -*-===//
//
// The entry point of the compiler, for tools and for Python. No function here
// throws or prints: returned diagnostics explain a failure.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_PIPELINE_COMPILER_H
#define SCALIFY_PIPELINE_COMPILER_H

#include "scalify/Dialect/Plan/PlanMemory.h"
#include "scalify/Pipeline/Diagnostics.h"
#include "scalify/Pipeline/ScaleReport.h"
#include "scalify/Pipeline/Stages.h"
#include "scalify/Precision/CastScales.h"

#include "llvm/Support/Error.h"

namespace scalify {

/// The mean of an argument's elements and their standard deviation.
struct ArgumentMoments {
  double mean = 0, deviation = 0;
};

/// log2 of the scale of one argument of main.
struct ArgumentScale {
  /// Its name ("params['w']"), or its index in decimal.
  std::string argument;
  int32_t exponent = 0;
  /// Only for an argument whose mean dominates its elements.
  std::optional<ArgumentMoments> moments = std::nullopt;
};

/// The role of all arguments of main whose names match the pattern.
struct ArgumentRole {
  /// A regular expression, searched in argument names.
  std::string pattern;
  std::string role;
};

/// The declared range of one argument of main. Each member corresponds to the
/// key of `scalify.range` of that name.
struct ArgumentRange {
  std::string argument;
  std::optional<double> max, min, frobenius;
  std::vector<double> norms;
};

struct CompileOptions {
  /// A preset's name or the text of a `#scalify.recipe<...>`. If empty, the
  /// module's recipe applies, or `none` if the module has no recipe.
  std::string recipe;
  /// "cpu", "sm_90a" or "stablehlo".
  std::string target = "cpu";
  bool strict = false;
  /// The CPU whose instructions kernels may use. The default is not the host
  /// CPU, so that equal programs give equal artefacts on every machine.
  std::string mcpu = "x86-64-v3";
  /// Path of NVIDIA's assembler, for GPU kernels; empty: search for it.
  std::string ptxas;
  std::vector<ArgumentScale> scales;
  /// If true, arguments without a scale count as 2^0, and are an error under
  /// `strict`. Otherwise the step measures them (scalify-measure-arguments).
  bool declaredScales = false;
  std::vector<ArgumentRange> ranges;
  /// The first matching pattern applies; it overrides the role that Import
  /// finds.
  std::vector<ArgumentRole> roles;
  /// Use of the range analysis: "report", or "choose" (formats).
  std::string rangeUse = "report";
  /// A calibration: one entry per cast, in program order, or empty.
  std::vector<CastScale> castScales;
  /// Casts that clipped in an earlier run. This compilation leaves them, and
  /// the dots that read them, wide.
  std::vector<WideCast> wide;
  /// Places at which the step measures scales (scalify-place-rescales).
  std::vector<std::string> rescaleAt;
  /// Names of priors that replace the recipe's; empty: the recipe's priors.
  std::vector<std::string> priors;
  /// Main takes the scales of its casts as one more argument, the last
  /// (scalify-adapt-scales).
  bool adaptScales = false;
  /// Main takes and returns the scales of casts whose values may grow
  /// (scalify-carry-scales). Has no effect with `adaptScales`.
  bool carryScales = true;
  /// The step measures these scales in each run instead of carrying them
  /// (`measure-unproved` of scalify-quantize).
  bool measureCasts = false;
  /// Emit one warning with the number of arguments that each step measures.
  /// False if the caller reports it itself.
  bool tellMeasured = true;
  /// State that the recipe narrows stays narrow between steps
  /// (scalify-store-state). Ignored for StableHLO out.
  bool packState = false;
  /// The number of GPU streams on which commands of the step may run
  /// concurrently (scalify-assign-streams).
  int64_t streams = 1;
  /// The input is the program of one device of a mesh, and one process runs it
  /// for all devices. The value is the required number of devices; 0: any mesh
  /// (scalify-simulate-ranks).
  std::optional<int64_t> simulateRanks;
  /// The attentions of a GPU's step that become cuDNN calls. "exact": those
  /// whose results the program rounds as cuDNN does. "recipe": also those whose
  /// operands the recipe casts. "none": for machines without cuDNN. See
  /// scalify-form-attention.
  std::string libraryAttention = "recipe";
  /// The epilogues that a GPU's GEMM library computes. "exact": those that
  /// round as the program does. "all": every epilogue of the library. "none":
  /// no epilogue. See scalify-form-epilogues.
  std::string epilogues = "exact";
  /// The process that runs the artefact has the Python callbacks that the
  /// program calls. Otherwise such a call is an error.
  bool callbacks = false;
  /// "xla": XLA runs the ops that the CPU target lacks, in the process that
  /// runs the step. Empty: such an op is an error. See scalify-form-host-calls.
  std::string fallback;
  /// Overlap collectives with compute (scalify-overlap-collectives).
  bool overlap = true;
  /// If pipelineStages > 0, the artefact is that of stage pipelineStage of a
  /// pipeline, with pipelineVirtual chunks of the model per stage
  /// (scalify-place-stages).
  int64_t pipelineStages = 0, pipelineVirtual = 1, pipelineStage = 0;
  /// Ranks exchange narrow data where values are narrow anyway, with identical
  /// results (scalify-narrow-collectives).
  bool narrowCollectives = true;
  /// The largest size of a bucket of collectives, in bytes that one rank
  /// contributes; 0: no buckets; unset: the size that saturates the target's
  /// links (scalify-bucket-collectives).
  std::optional<int64_t> bucketBytes;
  /// The memory limit of a rank's step, in bytes; 0: none. If the step needs
  /// more, as few gathers of sharded weights as possible are rematerialised for
  /// the backward (scalify-gather-again).
  int64_t memoryLimit = 0;
  /// The order in which GPU ranks sum floats. "ordered": by rank, as CPU ranks
  /// do (scalify-order-sums). "nccl": NCCL's own order.
  std::string sums = "ordered";
  /// The caller passes new random words as a key to main in each step.
  /// Otherwise the recipe's stochastic rounding of state becomes round to
  /// nearest, with a remark.
  bool roundingKey = true;
  /// The input is the output of this stage.
  Stage compileFrom = Stage::Input;
  /// The last stage to run. Before Target the output is IR text.
  Stage compileTo = Stage::Target;
  /// The folder for the IR after each stage, `01-import.mlir` and so on.
  std::string snapshots;
  /// StableHLO out: the form of dots on FP8 data, "wide", "xla-gpu" or "plain".
  std::string fp8Form = "wide";
  /// StableHLO out: main also returns the wide value and the scale of each
  /// cast.
  bool probeCasts = false;
  /// StableHLO out: main also returns the statistics of all casts, one row per
  /// cast (scalify-collect-statistics).
  bool collectStatistics = false;
  /// "brief" (arguments, casts and dots) or "full" (every value, its facts and
  /// their sources). Applies to the result and the artefact.
  std::string report = "brief";
  /// Print locations in IR text.
  bool debugInfo = true;
  /// The input's name in locations.
  std::string inputName = "input";
};

struct CompileResult {
  /// The artefact's bytes, or IR text.
  std::string output;
  /// The report as JSON; empty before Precision. A brief report is an array of
  /// rows, a full one an object (docs/stages/explain.md).
  std::string report;
  /// The full report, if requested.
  ScaleReport values;
  /// A short form of the report for a terminal.
  std::string summary;
  /// The memory of @step, once the plan exists.
  std::optional<plan::PlanMemory> memory;
};

/// Reads options from a JSON object whose keys are the members' names, such as
/// `{"recipe": "fp8", "scales": {"params['w']": -5}}`. `scales` may also be a
/// list in main's order, with null for an argument without a declared scale.
llvm::Expected<CompileOptions> parseCompileOptions(llvm::StringRef json);

/// Adds the contents of a `--scales` file. The file holds `scales`, or an
/// object written by Python's `scalify.Scales.save`, which may also hold
/// moments and ranges.
llvm::Error addArgumentScales(CompileOptions &options, llvm::StringRef json);

/// Runs the requested stages.
mlir::FailureOr<CompileResult>
compile(llvm::StringRef text, const CompileOptions &options,
        std::vector<DiagnosticRecord> &diagnostics);

/// Compiles to the artefact for a device, through all stages including Target.
mlir::FailureOr<CompileResult>
compileToArtefact(llvm::StringRef text, CompileOptions options,
                  std::vector<DiagnosticRecord> &diagnostics);

/// Transforms to StableHLO that any XLA backend runs.
mlir::FailureOr<CompileResult>
transformToStableHLO(llvm::StringRef text, CompileOptions options,
                     std::vector<DiagnosticRecord> &diagnostics);

/// Returns the IR text after a pass pipeline in mlir-opt's syntax;
/// `builtin.module(` may be omitted. `roles` are set on arguments before the
/// pipeline runs. With `debugInfo` the text includes locations.
mlir::FailureOr<std::string>
runPipeline(llvm::StringRef text, llvm::StringRef pipeline,
            std::vector<DiagnosticRecord> &diagnostics, bool debugInfo = false,
            llvm::ArrayRef<ArgumentRole> roles = {});

} // namespace scalify

#endif // SCALIFY_PIPELINE_COMPILER_H
