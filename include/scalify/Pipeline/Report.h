//===- Report.h - The scale and format of each value, and why ---*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_REPORT_H
#define SCALIFY_PIPELINE_REPORT_H

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

namespace scalify {

/// One value of the step.
struct ReportRow {
  /// Its name in the IR after Precision ("%412"), or the argument's name.
  std::string value;
  std::string op;
  std::string location;
  std::string phase;
  /// log2 of the scale; unset if there is none or the step measures it.
  std::optional<int64_t> scale;
  /// The element type ("f8E4M3FN"), or of a dot "f8E4M3FN x f8E5M2 -> f32".
  std::string format;
  /// The rule, fact or recipe part that determines scale and format.
  std::string reason;
  /// The name of a quantizing cast; empty for other ops.
  std::string cast;
  /// The number of elements that a quantizing cast casts per execution.
  int64_t elements = 0;
  /// Of a quantizing cast: the range proof, or the reason why there is none.
  std::string range;
  /// Of a quantizing cast: the source of its scale (see `describeScaling`). Of
  /// an argument: "measured" if each step measures its scale.
  std::string scaling;
  /// Of a quantizing cast: true if its initial scale depends on priors.
  bool isByPrior = false;
  /// Of a dot: true if it stays wide, for `reason`.
  bool isWide = false;

  /// Of a dot: its kind ("weight_grad"), and the name of the argument that is
  /// its layer's weight. Empty if there is none.
  std::string kind, weight;
  /// Of a dot: its floating-point operations in one step.
  double work = 0;

  /// Only the format of a dot or a convolution has operands and a result.
  bool isDot() const { return format.find("->") != std::string::npos; }
};

/// Returns the rows of main after Precision, in program order: arguments with
/// scales, casts, and all dots. ScaleReport.h covers all other values.
std::vector<ReportRow> buildReport(mlir::ModuleOp module);

/// Removes the kinds and the weights of dots, which only reports read.
void eraseReportedKinds(mlir::ModuleOp module);

/// The module attribute that holds the report for the artefact.
inline constexpr llvm::StringLiteral kReportAttr = "scalify.report";

/// Sets `scalify.report` to an array with one dictionary per row.
void attachReport(mlir::ModuleOp module, const std::vector<ReportRow> &rows);

/// Returns a JSON array of objects whose keys are the members' names.
std::string toJSON(const std::vector<ReportRow> &rows);

/// Returns a summary: casts by format, and each dot with its formats or the
/// reason why it stays wide.
std::string summarize(const std::vector<ReportRow> &rows);

} // namespace scalify

#endif // SCALIFY_PIPELINE_REPORT_H
