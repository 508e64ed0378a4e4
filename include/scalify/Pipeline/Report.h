//===- Report.h - What got which scale and format, and why ------*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_REPORT_H
#define SCALIFY_PIPELINE_REPORT_H

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

namespace scalify {

/// One value of the step.
struct ReportRow {
  /// Its name in the IR after Precision ("%412"), or of the argument.
  std::string value;
  std::string op;
  std::string location;
  std::string phase;
  /// log2 of the scale; none where the step measures it or there is none.
  std::optional<int64_t> scale;
  /// "f8E4M3FN"; of a dot "f8E4M3FN x f8E5M2 -> f32".
  std::string format;
  /// The rule, fact or choice of the recipe behind scale and format.
  std::string reason;
  /// Of a quantizing cast its name, else empty.
  std::string cast;
  /// Of a quantizing cast how many elements it casts at a time.
  int64_t elements = 0;
  /// Of a quantizing cast what the range analysis proves, or what spoils it.
  std::string range;
  /// Of a quantizing cast how it comes by its scale: see `describeScaling`. Of
  /// an argument "measured" where each step measures it.
  std::string scaling;
  /// Of a quantizing cast whether priors decided the scale that it starts from.
  bool isByPrior = false;
  /// Of a dot whether it stays wide; `reason` says why.
  bool isWide = false;

  /// Of a dot what it computes ("weight_grad"), and the name of the argument
  /// that is its layer's weight; empty where there is none.
  std::string kind, weight;
  /// Of a dot its floating-point operations in one step.
  double work = 0;

  /// Of a dot or a convolution the format has two sides.
  bool isDot() const { return format.find("->") != std::string::npos; }
};

/// The rows of main after Precision, in program order: arguments that carry
/// scales, casts, and all dots. ScaleReport.h has those of all other values.
std::vector<ReportRow> buildReport(mlir::ModuleOp module);

/// The module attribute that carries the report to the artefact.
inline constexpr llvm::StringLiteral kReportAttr = "scalify.report";

/// Sets `scalify.report`, an array of one dictionary per row.
void attachReport(mlir::ModuleOp module, const std::vector<ReportRow> &rows);

/// A JSON array of objects with the members' names as keys.
std::string toJSON(const std::vector<ReportRow> &rows);

/// A few lines: casts by format, each dot with its formats or why it is wide.
std::string summarize(const std::vector<ReportRow> &rows);

} // namespace scalify

#endif // SCALIFY_PIPELINE_REPORT_H
