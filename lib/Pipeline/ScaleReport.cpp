//===- ScaleReport.cpp - Every value, its scale and its sources -----------===//

#include "scalify/Pipeline/ScaleReport.h"

#include "ReportValues.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Import/Locations.h"
#include "scalify/Pipeline/SourceNames.h"
#include "scalify/Precision/CastScales.h"
#include "scalify/Scaling/Provenance.h"
#include "scalify/Scaling/RangeProofs.h"
#include "scalify/Scaling/ScaleAnalysis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Pass/Pass.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

void ScaleOpCounter::runAfterPass(Pass *pass, Operation *op) {
  StringRef name = pass->getArgument();
  if (name != "scalify-validate-import" && name != "scalify-propagate" &&
      name != "scalify-quantize")
    return;
  OpCounts entry;
  entry.after = name.substr(StringRef("scalify-").size()).str();
  op->walk([&](Operation *inner) {
    StringRef kind = inner->getName().stripDialect();
    if (isa_and_nonnull<ScalifyDialect>(inner->getDialect()))
      ++entry.scaleOps[kind.str()];
    else if (isa_and_nonnull<stablehlo::StableHLODialect>(
                 inner->getDialect()) &&
             !isa<stablehlo::ConstantOp>(inner))
      ++entry.ops;
  });
  counts.push_back(std::move(entry));
}

namespace {
class ScaleReportBuilder {
public:
  ScaleReportBuilder(func::FuncOp main, std::vector<ProvenanceEntry> entries)
      : main(main), names(main), entries(std::move(entries)) {}
  std::vector<ScaleRow> run();

private:
  void find(Block &block);
  void remember(Value value);
  ScaleRow describeEntry(int64_t id);
  void describeValue(Value value, ScaleRow &row);
  ScaleRow describeCast(QuantizeOp quantize);
  void setHeadroom(ScaleRow &row, Type stored, int64_t scale);

  func::FuncOp main;
  AsmState names;
  std::vector<ProvenanceEntry> entries;
  /// By entry: the value that remains of it, and the casts of that value.
  std::vector<Value> left;
  std::vector<SmallVector<QuantizeOp, 1>> casts;
};
} // namespace

/// An entry's value may have been cloned on narrow data. The clone of the
/// entry's type represents it, or else the first clone.
void ScaleReportBuilder::remember(Value value) {
  std::optional<int32_t> id = getProvenanceId(value);
  if (!id || *id < 0 || *id >= static_cast<int64_t>(entries.size()))
    return;
  if (!left[*id] || (left[*id].getType() != entries[*id].type &&
                     value.getType() == entries[*id].type))
    left[*id] = value;
}

/// Returns the entry of the value that a cast casts, and whether the cast is of
/// the value itself. Precision may store state as its root, which it adds.
static std::pair<std::optional<int32_t>, bool> findRoot(QuantizeOp quantize) {
  Value value = lookThrough(quantize.getValue(), Move::Cast);
  std::optional<int32_t> id = getProvenanceId(value);
  if (id)
    return {id, true};
  // A pass adds only a few ops before a cast.
  for (int steps = 0; steps < 4 && !id; ++steps) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getNumOperands() == 0)
      break;
    value = lookThrough(op->getOperand(0), Move::Cast);
    id = getProvenanceId(value);
  }
  return {id, false};
}

void ScaleReportBuilder::find(Block &block) {
  for (BlockArgument arg : block.getArguments())
    remember(arg);
  for (Operation &op : block) {
    for (Value result : op.getResults())
      remember(result);
    if (auto quantize = dyn_cast<QuantizeOp>(op)) {
      std::optional<int32_t> id = findRoot(quantize).first;
      // Casts that no entry leads to come last.
      casts[id && *id < static_cast<int64_t>(entries.size())
                ? static_cast<size_t>(*id)
                : entries.size()]
          .push_back(quantize);
    }
    for (Region &region : getScaledBodies(&op))
      for (Block &body : region)
        find(body);
  }
}

void ScaleReportBuilder::setHeadroom(ScaleRow &row, Type stored,
                                     int64_t scale) {
  auto format = dyn_cast<FloatType>(stored);
  if (!format || !row.rms || format.getWidth() > 16)
    return;
  bool isBounded = row.bound && std::isfinite(*row.bound);
  double top = isBounded ? *row.bound : *row.rms;
  if (top > 0)
    row.headroom = std::log2(getLargestFinite(format)) +
                   static_cast<double>(scale) - std::log2(top);
}

void ScaleReportBuilder::describeValue(Value value, ScaleRow &row) {
  if (auto arg = dyn_cast<BlockArgument>(value);
      arg && arg.getOwner()->getParentOp() == main) {
    unsigned index = arg.getArgNumber();
    row.value = getArgumentName(arg);
    if (RoleAttr role = getRoleAttr(main, index))
      row.phase = stringifyRole(role.getValue());
    if (row.rule.empty() && isFloatTensor(arg.getType()))
      row.rule = explainArgument(main, index);
    if (isMeasuredArgument(main, index))
      row.scaling = "measured";
  } else {
    llvm::raw_string_ostream os(row.value);
    value.printAsOperand(os, names);
  }
  row.format = getElement(value);
  if (Operation *dot = value.getDefiningOp();
      dot && stablehlo::isContraction(dot)) {
    row.format = describeDotFormats(dot);
    row.reason = getWideReason(dot);
    row.isWide = staysWide(dot);
  }
  setHeadroom(row, getElementTypeOrSelf(value), 0);
}

ScaleRow ScaleReportBuilder::describeEntry(int64_t id) {
  const ProvenanceEntry &entry = entries[id];
  ScaleRow row;
  row.op = entry.op;
  row.location = describeLocation(entry.loc);
  row.phase = entry.phase;
  row.rule = entry.rule;
  row.scale = entry.scale;
  row.mean = entry.mean;
  row.rms = entry.rms;
  row.bound = entry.bound;
  row.isInBody = entry.isInBody;
  unsigned result = 0;
  if (auto opResult = dyn_cast_or_null<OpResult>(left[id]))
    result = opResult.getResultNumber();
  row.source = getSourceName(entry.loc, result);
  if (left[id]) {
    describeValue(left[id], row);
  } else {
    row.isDropped = true;
    llvm::raw_string_ostream os(row.format);
    os << getElementTypeOrSelf(entry.type);
  }
  if (row.op != "argument" && !row.source.empty())
    row.value = row.source;
  return row;
}

ScaleRow ScaleReportBuilder::describeCast(QuantizeOp quantize) {
  ScaleRow row;
  std::optional<int64_t> predicted;
  auto [id, isItself] = findRoot(quantize);
  if (isItself && id && *id < static_cast<int64_t>(entries.size())) {
    const ProvenanceEntry &entry = entries[*id];
    row.mean = entry.mean;
    row.rms = entry.rms;
    row.bound = entry.bound;
    row.rule = entry.rule;
    predicted = entry.scale;
  }
  row.cast = quantize.getCast().value_or("").str();
  // Value numbers of the narrowed module would mix with names of the text.
  row.value = StringRef(row.cast).split(':').first.str();
  if (row.value.empty()) {
    llvm::raw_string_ostream os(row.value);
    quantize->getResult(0).printAsOperand(os, names);
  }
  row.op = "quantize";
  row.location = describeLocation(quantize.getLoc());
  if (PhaseAttr phase = getPhaseAttr(quantize))
    row.phase = stringifyPhase(phase.getValue());
  row.format = getElement(quantize.getResult());
  row.scale = getScaleExponent(quantize.getScale());
  bool isPropagated = RecipeAttr::of(main->getParentOp()).getScales() ==
                      ScaleSource::Propagated;
  if (row.rule.empty() || row.scale != predicted || !isPropagated ||
      isCalibrated(quantize))
    row.rule = describeCastRule(main, quantize);
  row.isInBody = !isa<FunctionOpInterface>(quantize->getParentOp());
  row.range = describeProof(quantize);
  row.scaling = describeScaling(quantize).str();
  row.isByPrior = isByPrior(quantize);
  if (row.scale)
    setHeadroom(row, getElementTypeOrSelf(quantize.getType()), *row.scale);
  return row;
}

std::vector<ScaleRow> ScaleReportBuilder::run() {
  left.resize(entries.size());
  casts.resize(entries.size() + 1);
  find(main.getBody().front());
  // Casts follow the value that they cast, so row indices shift.
  std::vector<ScaleRow> rows;
  std::vector<int64_t> places(entries.size());
  auto addCasts = [&](size_t id) {
    for (QuantizeOp quantize : casts[id]) {
      rows.push_back(describeCast(quantize));
      if (id < entries.size())
        rows.back().from.push_back(static_cast<int64_t>(id));
    }
  };
  for (size_t id = 0; id < entries.size(); ++id) {
    places[id] = static_cast<int64_t>(rows.size());
    rows.push_back(describeEntry(static_cast<int64_t>(id)));
    rows.back().from.assign(entries[id].from.begin(), entries[id].from.end());
    addCasts(id);
  }
  addCasts(entries.size());
  for (auto [place, row] : llvm::enumerate(rows)) {
    row.id = static_cast<int64_t>(place);
    for (int64_t &source : row.from)
      source = places[source];
  }
  return rows;
}

/// Returns main, or else the first function with a body.
static func::FuncOp findMain(ModuleOp module) {
  if (auto main = module.lookupSymbol<func::FuncOp>("main"))
    return main;
  for (auto func : module.getOps<func::FuncOp>())
    if (!func.isExternal())
      return func;
  return {};
}

ScaleReport scalify::buildScaleReport(ModuleOp module) {
  ScaleReport report;
  report.recipe = RecipeAttr::of(module).getName().str();
  func::FuncOp main = findMain(module);
  if (main && !main.isExternal() && main.getBody().hasOneBlock()) {
    if (!module->hasAttr(kProvenanceAttr))
      annotateProvenance(main, nullptr);
    report.rows = ScaleReportBuilder(main, readProvenance(module)).run();
  }
  eraseProvenance(module);
  return report;
}
