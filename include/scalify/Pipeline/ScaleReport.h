//===- ScaleReport.h - Every value, its scale and its sources ---*- C++ -*-===//
//
// The full report: one row per value of the step, in graph order, with the rule
// and the facts that determine its scale, and the rows that the facts came
// from. The brief report of Report.h is in every artefact; this one is built on
// request.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_PIPELINE_SCALEREPORT_H
#define SCALIFY_PIPELINE_SCALEREPORT_H

#include "scalify/Pipeline/Report.h"

#include "mlir/Pass/PassInstrumentation.h"

#include "llvm/Support/JSON.h"

#include <map>

namespace scalify {

/// One value of the step; `id` is its index in the list.
struct ScaleRow : ReportRow {
  int64_t id = 0;
  /// The value's name in the input text, if it differs from `value`.
  std::string source;
  std::string rule;
  std::optional<double> mean, rms, bound;
  /// Binades from the bound, or else from the predicted rms, up to the largest
  /// finite value of the format under the scale.
  std::optional<double> headroom;
  /// The rows whose facts the rule read.
  std::vector<int64_t> from;
  /// True in the body of a loop or a branch.
  bool isInBody = false;
  /// True if propagation saw the value but a later pass removed it.
  bool isDropped = false;
};

/// The ops of a module after one pass.
struct OpCounts {
  std::string after;
  /// StableHLO ops except constants.
  unsigned ops = 0;
  /// Ops of the scalify dialect, by name.
  std::map<std::string, unsigned> scaleOps;
};

/// Counts ops after the passes that add or remove scale ops.
class ScaleOpCounter : public mlir::PassInstrumentation {
public:
  explicit ScaleOpCounter(std::vector<OpCounts> &counts) : counts(counts) {}
  void runAfterPass(mlir::Pass *pass, mlir::Operation *op) override;

private:
  std::vector<OpCounts> &counts;
};

struct ScaleReport {
  std::string recipe;
  std::vector<ScaleRow> rows;
  std::vector<OpCounts> counts;
};

/// Builds the report of a module after Precision or an earlier pass. If the
/// module was not propagated under `explain`, facts are absent and the sources
/// of a value are its operands. Removes the attributes that `explain` left.
ScaleReport buildScaleReport(mlir::ModuleOp module);

/// See docs/stages/explain.md for the schema.
llvm::json::Value toJSON(const ScaleReport &report);

/// Returns a summary, followed by one line per row.
std::string toText(const ScaleReport &report);

/// Formats an exponent as `2^-3`; empty if unset.
std::string formatScale(std::optional<int64_t> exponent);

/// Formats facts as `mean 0, rms 0.125, bound 4`; empty if they are not known.
std::string formatFacts(const ScaleRow &row);

} // namespace scalify

#endif // SCALIFY_PIPELINE_SCALEREPORT_H
