//===- ScaleReport.h - Every value, its scale, and where from ---*- C++ -*-===//
//
// The full report: one row a value of the step, in graph order, each with the
// rule and the facts behind its scale and the rows that these came from. The
// brief one of Report.h travels with every artefact; this one is made where it
// is asked for.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_PIPELINE_SCALEREPORT_H
#define SCALIFY_PIPELINE_SCALEREPORT_H

#include "scalify/Pipeline/Report.h"

#include "mlir/Pass/PassInstrumentation.h"

#include "llvm/Support/JSON.h"

#include <map>

namespace scalify {

/// One value of the step; `id` is its place in the list.
struct ScaleRow : ReportRow {
  int64_t id = 0;
  /// The name in the input text, where the value has another in the report.
  std::string source;
  std::string rule;
  std::optional<double> mean, rms, bound;
  /// Binades from the bound, or else the predicted rms, to the largest finite
  /// value of the format, under the scale.
  std::optional<double> headroom;
  /// Rows whose facts the rule asked for.
  std::vector<int64_t> from;
  /// In the body of a loop or a branch.
  bool isInBody = false;
  /// Known while scales were found; no longer in the graph.
  bool isDropped = false;
};

/// What a module held after one pass.
struct OpCounts {
  std::string after;
  /// Ops of the input language, constants not counted.
  unsigned ops = 0;
  /// Ops of the scalify dialect, by name.
  std::map<std::string, unsigned> scaleOps;
};

/// Counts after the passes between which scales come and go.
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

/// Reads the report off a module after Precision, or after an earlier pass. A
/// module that was not propagated under `explain` gives no facts, and values
/// come from their operands. Removes what `explain` left in the module.
ScaleReport buildScaleReport(mlir::ModuleOp module);

/// The schema is described in docs/stages/explain.md.
llvm::json::Value toJSON(const ScaleReport &report);

/// A summary, then a line a row.
std::string toText(const ScaleReport &report);

/// A number of binades: `2^-3`; empty where there is none.
std::string formatScale(std::optional<int64_t> exponent);

/// `mean 0, rms 0.125, bound 4`; empty where they are not known.
std::string formatFacts(const ScaleRow &row);

} // namespace scalify

#endif // SCALIFY_PIPELINE_SCALEREPORT_H
