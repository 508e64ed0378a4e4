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
  /// If set, the entry is a frontend's convention of names. It need not match,
  /// and applies to float arguments with one of these roles.
  std::vector<std::string> over;
};

/// The declared range of one argument of main. Each member corresponds to the
/// key of `scalify.range` of that name.
struct ArgumentRange {
  std::string argument;
  std::optional<double> max, min, frobenius;
  std::vector<double> norms;
};

struct CompileOptions : PlainOptions {
  std::vector<ArgumentScale> scales;
  std::vector<ArgumentRange> ranges;
  /// The first matching pattern applies; it overrides the role that Import
  /// finds.
  std::vector<ArgumentRole> roles;
  /// A calibration: one entry per cast, in program order, or empty.
  std::vector<CastScale> castScales;
  /// Casts that clipped in an earlier run. This compilation leaves them, and
  /// the dots that read them, wide.
  std::vector<WideCast> wide;
  /// The input is the program of one device of a mesh, and one process runs it
  /// for all devices. The value is the required number of devices; 0: any mesh
  /// (scalify-simulate-ranks).
  std::optional<int64_t> simulateRanks;
  /// The largest size of a bucket of collectives, in bytes that one rank
  /// contributes; 0: no buckets; unset: the size that saturates the target's
  /// links (scalify-bucket-collectives).
  std::optional<int64_t> bucketBytes;
  /// The input is the output of this stage.
  Stage compileFrom = Stage::Input;
  /// The last stage to run. Before Target the output is IR text.
  Stage compileTo = Stage::Target;
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

/// The formats of a program's dots on floats, for each of some options.
using DotFormatLists = std::vector<std::vector<std::string>>;

/// Returns the formats that Precision gives to the dots of a program by each of
/// some corrections of the noise analysis (`noiseExponent`), at a fraction of
/// the cost of a report.
mlir::FailureOr<DotFormatLists>
decideFormats(llvm::StringRef text, CompileOptions options,
              llvm::ArrayRef<int64_t> exponents,
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
