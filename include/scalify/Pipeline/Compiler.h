//===- Compiler.h - From StableHLO text to an artefact ----------*- C++ -*-===//
//
// The one entry to the compiler for tools and for Python. Nothing here throws
// or prints: a failure is explained by the diagnostics that come back.
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
  /// Of an argument that is carried by its mean.
  std::optional<ArgumentMoments> moments = std::nullopt;
};

/// The role of the arguments of main whose names match.
struct ArgumentRole {
  /// A regular expression that is searched in names.
  std::string pattern;
  std::string role;
};

/// What one argument of main is assumed to keep to; the key of each member is
/// that of `scalify.range`.
struct ArgumentRange {
  std::string argument;
  std::optional<double> max, min, frobenius;
  std::vector<double> norms;
};

struct CompileOptions {
  /// A preset's name or the text of a `#scalify.recipe<...>`; empty for the
  /// recipe that the module carries, or `none`.
  std::string recipe;
  /// "cpu", "sm_90a" or "stablehlo".
  std::string target = "cpu";
  bool strict = false;
  /// The CPU whose instructions kernels may use. Not the machine's own: equal
  /// programs shall give equal artefacts everywhere.
  std::string mcpu = "x86-64-v3";
  /// NVIDIA's assembler, for kernels of a GPU; empty looks for it.
  std::string ptxas;
  std::vector<ArgumentScale> scales;
  /// Arguments without one count as 2^0, and are an error under `strict`; else
  /// the step measures them (the pass scalify-measure-arguments).
  bool declaredScales = false;
  std::vector<ArgumentRange> ranges;
  /// The first that matches counts; before what Import finds.
  std::vector<ArgumentRole> roles;
  /// What proofs of the range analysis are for: "report", or "choose" formats.
  std::string rangeUse = "report";
  /// A calibration: one entry per cast, in their order, or empty.
  std::vector<CastScale> castScales;
  /// Casts that an earlier run found to clip, and that this compilation leaves
  /// wide, with the dots that read them.
  std::vector<WideCast> wide;
  /// Where the step measures scales: see the pass scalify-place-rescales.
  std::vector<std::string> rescaleAt;
  /// Names of priors in place of the recipe's; empty: the recipe's.
  std::vector<std::string> priors;
  /// Main takes the scales of its casts as one more argument, last: see the
  /// pass scalify-adapt-scales.
  bool adaptScales = false;
  /// Main takes and returns the scales of casts whose values may grow: see the
  /// pass scalify-carry-scales. Not where `adaptScales` moves them.
  bool carryScales = true;
  /// Each step measures these scales instead: see `measure-unproved` of the
  /// pass scalify-quantize.
  bool measureCasts = false;
  /// One warning says how many arguments each step measures. False where
  /// whoever compiles says it in words of his own.
  bool tellMeasured = true;
  /// State that the recipe narrows is narrow data also between steps: see the
  /// pass scalify-store-state. Not for StableHLO out.
  bool packState = false;
  /// Streams of a GPU that commands of the step may run on side by side: see
  /// the pass scalify-assign-streams.
  int64_t streams = 1;
  /// The program is that of one device of a mesh, and one process runs it for
  /// all devices: as many as this says, or 0 for those that the mesh has. See
  /// the pass scalify-simulate-ranks.
  std::optional<int64_t> simulateRanks;
  /// Which attentions of a GPU's step are cuDNN's: "exact", those whose results
  /// the program rounds as it does, "recipe", also those whose operands the
  /// recipe has cast, or "none", for where cuDNN is not. See the pass
  /// scalify-form-attention.
  std::string libraryAttention = "recipe";
  /// What a GPU's library does behind a product: "exact", what rounds as the
  /// program does, "all" that it has, or "none". See the pass
  /// scalify-form-epilogues.
  std::string epilogues = "exact";
  /// The process that runs the artefact has the Python functions that the
  /// program calls back; else such a call is an error.
  bool callbacks = false;
  /// "xla": what the CPU target lacks is run by XLA in the process that runs
  /// the step; empty: it is an error. See the pass scalify-form-host-calls.
  std::string fallback;
  /// What ranks exchange goes on beside what they compute: see the pass
  /// scalify-overlap-collectives.
  bool overlap = true;
  /// With stages, the artefact is that of one stage of a pipeline, with so many
  /// chunks of the model each: see the pass scalify-place-stages.
  int64_t pipelineStages = 0, pipelineVirtual = 1, pipelineStage = 0;
  /// Ranks exchange narrow data where values are narrow anyway, with the same
  /// bits: see the pass scalify-narrow-collectives.
  bool narrowCollectives = true;
  /// Bytes that a rank gives to a bucket of collectives, 0 for none and none
  /// given for what fills the target's links: see the pass
  /// scalify-bucket-collectives.
  std::optional<int64_t> bucketBytes;
  /// What a rank may have in memory for a step, in bytes; 0 for any number.
  /// Where more is needed, weights in shares are gathered again for the
  /// backward, as few as will do: see the pass scalify-gather-again.
  int64_t memoryLimit = 0;
  /// How ranks with GPUs sum floats: "ordered", in the order of ranks as those
  /// of CPUs do (see the pass scalify-order-sums), or "nccl", in its own.
  std::string sums = "ordered";
  /// The caller gives main another key of random words in each step; else
  /// the recipe's stochastic rounding of state is to nearest, with a remark.
  bool roundingKey = true;
  /// The input is the output of this stage.
  Stage compileFrom = Stage::Input;
  /// The last stage to run; before Target the output is IR text.
  Stage compileTo = Stage::Target;
  /// A folder for the IR after each stage, `01-import.mlir` and so on.
  std::string snapshots;
  /// StableHLO out: how dots on FP8 data are written, "wide", "xla-gpu" or
  /// "plain".
  std::string fp8Form = "wide";
  /// StableHLO out: main also returns wide value and scale of each cast.
  bool probeCasts = false;
  /// StableHLO out: main also returns the statistics of all casts, one row
  /// each; see the pass scalify-collect-statistics.
  bool collectStatistics = false;
  /// "brief" (arguments, casts and dots) or "full" (every value, its facts and
  /// where they came from), in the result and in the artefact.
  std::string report = "brief";
  /// Print locations in IR text.
  bool debugInfo = true;
  /// What locations call the input.
  std::string inputName = "input";
};

struct CompileResult {
  /// The artefact's bytes, or IR text.
  std::string output;
  /// The report as JSON, empty before Precision: brief an array of rows, full
  /// an object (docs/stages/explain.md).
  std::string report;
  /// The full report, where it was asked for.
  ScaleReport values;
  /// The report in a few lines for a terminal.
  std::string summary;
  /// Where the bytes of @step are, once there is a plan.
  std::optional<plan::PlanMemory> memory;
};

/// Reads options from a JSON object whose keys are the members' names, such as
/// `{"recipe": "fp8", "scales": {"params['w']": -5}}`. `scales` may also be a
/// list in main's order, with null for "none declared".
llvm::Expected<CompileOptions> parseCompileOptions(llvm::StringRef json);

/// Adds what the file of `--scales` holds: `scales`, or an object that Python's
/// `scalify.Scales.save` wrote, which may also hold moments and ranges.
llvm::Error addArgumentScales(CompileOptions &options, llvm::StringRef json);

/// Runs the stages that the options ask for.
mlir::FailureOr<CompileResult>
compile(llvm::StringRef text, const CompileOptions &options,
        std::vector<DiagnosticRecord> &diagnostics);

/// The artefact for a device, all stages up to Target included.
mlir::FailureOr<CompileResult>
compileToArtefact(llvm::StringRef text, CompileOptions options,
                  std::vector<DiagnosticRecord> &diagnostics);

/// StableHLO that any XLA backend runs.
mlir::FailureOr<CompileResult>
transformToStableHLO(llvm::StringRef text, CompileOptions options,
                     std::vector<DiagnosticRecord> &diagnostics);

/// The IR text after a pass pipeline in mlir-opt's syntax; `builtin.module(`
/// may be left out. Arguments have `roles` before. With `debugInfo` the text
/// has the ops' locations.
mlir::FailureOr<std::string>
runPipeline(llvm::StringRef text, llvm::StringRef pipeline,
            std::vector<DiagnosticRecord> &diagnostics, bool debugInfo = false,
            llvm::ArrayRef<ArgumentRole> roles = {});

} // namespace scalify

#endif // SCALIFY_PIPELINE_COMPILER_H
