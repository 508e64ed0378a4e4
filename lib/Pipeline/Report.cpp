//===- Report.cpp - The scale and format of each value, and why -----------===//

#include "scalify/Pipeline/Report.h"
#include "scalify/Dialect/Scalify/Donation.h"

#include "ReportValues.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Pipeline/Diagnostics.h"
#include "scalify/Pipeline/NarrowWork.h"
#include "scalify/Precision/CastScales.h"
#include "scalify/Precision/DotLayers.h"
#include "scalify/Scaling/MeasuredArguments.h"
#include "scalify/Scaling/RangeProofs.h"
#include "scalify/Scaling/ScaleAnalysis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/JSON.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

static std::string getString(Operation *op, StringRef name) {
  auto attr = op->getAttrOfType<StringAttr>(name);
  return attr ? attr.str() : "";
}

namespace {
class ReportBuilder {
public:
  explicit ReportBuilder(func::FuncOp main)
      : main(main), names(main), roles(main), layers(main, roles) {}
  std::vector<ReportRow> run();

private:
  ReportRow makeRow(Operation *op);
  void addArgument(BlockArgument arg);
  void addCast(QuantizeOp quantize);
  void addDot(Operation *dot);
  void addOperation(Operation *op);

  func::FuncOp main;
  AsmState names;
  DotRoles roles;
  DotLayers layers;
  std::vector<ReportRow> rows;
};
} // namespace

ReportRow ReportBuilder::makeRow(Operation *op) {
  ReportRow row;
  llvm::raw_string_ostream os(row.value);
  op->getResult(0).printAsOperand(os, names);
  row.op = op->getName().stripDialect().str();
  row.location = describeLocation(op->getLoc());
  if (PhaseAttr phase = getPhaseAttr(op))
    row.phase = stringifyPhase(phase.getValue());
  row.format = getElement(op->getResult(0));
  row.reason = getString(op, kRuleAttr);
  if (auto scale = op->getAttrOfType<IntegerAttr>(kScaleAttr))
    row.scale = scale.getInt();
  return row;
}

void ReportBuilder::addArgument(BlockArgument arg) {
  if (!isFloatTensor(arg.getType()) ||
      cast<ShapedType>(arg.getType()).getRank() == 0)
    return;
  unsigned index = arg.getArgNumber();
  ReportRow row;
  row.value = getArgumentName(arg);
  row.op = "argument";
  row.location = describeLocation(arg.getLoc());
  row.format = getElement(arg);
  if (RoleAttr role = getRoleAttr(main, index))
    row.phase = stringifyRole(role.getValue());
  row.reason = explainArgument(main, index);
  if (isMeasuredArgument(main, index))
    row.scaling = "measured";
  auto scale = main.getArgAttrOfType<IntegerAttr>(index, kScaleAttr);
  if (scale && scale.getInt() != kZeroScale)
    row.scale = scale.getInt();
  else if (!scale && !main.getArgAttr(index, kAliasAttr) &&
           !main.getArgAttr(index, kMeasuredAttr))
    row.scale = 0;
  rows.push_back(std::move(row));
}

void ReportBuilder::addCast(QuantizeOp quantize) {
  ReportRow row = makeRow(quantize);
  row.scale = getScaleExponent(quantize.getScale());
  row.cast = quantize.getCast().value_or("").str();
  row.elements = cast<ShapedType>(quantize.getType()).getNumElements();
  row.reason = describeCastRule(main, quantize);
  row.range = describeProof(quantize);
  row.scaling = describeScaling(quantize).str();
  row.isByPrior = isByPrior(quantize);
  rows.push_back(std::move(row));
}

void ReportBuilder::addDot(Operation *dot) {
  ReportRow row = makeRow(dot);
  row.format = describeDotFormats(dot);
  row.work = countWork(dot);
  row.isWide = staysWide(dot);
  if (std::string wide = getWideReason(dot); !wide.empty())
    row.reason = wide;
  // Only dots that Precision added are judged by what the step is now.
  if (auto kind = dot->getAttrOfType<DotKindAttr>(kDotKindAttr)) {
    row.kind = stringifyDotKind(kind.getValue()).str();
    row.weight = getString(dot, kDotWeightAttr);
  } else {
    if (std::optional<DotKind> found = layers.getKind(dot))
      row.kind = stringifyDotKind(*found).str();
    if (Value weight = layers.getWeight(dot))
      row.weight = getArgumentName(cast<BlockArgument>(weight));
  }
  rows.push_back(std::move(row));
}

void ReportBuilder::addOperation(Operation *op) {
  if (auto quantize = dyn_cast<QuantizeOp>(op))
    return addCast(quantize);
  if (stablehlo::isContraction(op))
    addDot(op);
}

std::vector<ReportRow> ReportBuilder::run() {
  for (BlockArgument arg : main.getArguments())
    addArgument(arg);
  main.getBody().walk([this](Operation *op) { addOperation(op); });
  return std::move(rows);
}

void scalify::eraseReportedKinds(ModuleOp module) {
  module.walk([](Operation *op) {
    op->removeAttr(kDotKindAttr);
    op->removeAttr(kDotWeightAttr);
  });
}

std::vector<ReportRow> scalify::buildReport(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return {};
  return ReportBuilder(main).run();
}

/// Calls `set` with the name and the value of each member that is known: text,
/// a number or a flag. A row of the artefact and of the JSON has them alike.
template <typename SetFn>
static void visitMembers(const ReportRow &row, SetFn set) {
  set("value", row.value);
  set("op", row.op);
  set("loc", row.location);
  set("phase", row.phase);
  set("format", row.format);
  set("reason", row.reason);
  if (row.scale)
    set("scale", *row.scale);
  if (!row.cast.empty()) {
    set("cast", row.cast);
    set("elements", row.elements);
  }
  for (auto [name, text] :
       {std::pair("range", &row.range), std::pair("scaling", &row.scaling),
        std::pair("kind", &row.kind), std::pair("weight", &row.weight)})
    if (!text->empty())
      set(name, *text);
  if (row.isByPrior)
    set("by_prior", true);
  if (row.isWide)
    set("wide", true);
  if (row.isDot())
    set("flops", static_cast<int64_t>(std::llround(row.work)));
}

void scalify::attachReport(ModuleOp module,
                           const std::vector<ReportRow> &rows) {
  Builder builder(module.getContext());
  SmallVector<Attribute> entries;
  for (const ReportRow &row : rows) {
    NamedAttrList entry;
    auto set = [&](StringRef name, const auto &value) {
      using T = std::decay_t<decltype(value)>;
      if constexpr (std::is_same_v<T, bool>)
        entry.set(name, builder.getBoolAttr(value));
      else if constexpr (std::is_same_v<T, int64_t>)
        entry.set(name, builder.getI64IntegerAttr(value));
      else
        entry.set(name, builder.getStringAttr(value));
    };
    visitMembers(row, set);
    entries.push_back(entry.getDictionary(module.getContext()));
  }
  module->setAttr(kReportAttr, builder.getArrayAttr(entries));
}

std::string scalify::toJSON(const std::vector<ReportRow> &rows) {
  llvm::json::Array array;
  for (const ReportRow &row : rows) {
    llvm::json::Object object{{"scale", nullptr}};
    visitMembers(
        row, [&](StringRef name, const auto &value) { object[name] = value; });
    array.push_back(std::move(object));
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(array));
  return text;
}

std::string scalify::summarize(const std::vector<ReportRow> &rows) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::MapVector<StringRef, unsigned> casts, dots;
  // A fixed order, so that summaries are comparable.
  llvm::MapVector<StringRef, unsigned> scaling;
  for (StringRef kind : {"proved", "static", "carried", "measured"})
    scaling[kind] = 0;
  unsigned numByPrior = 0;
  for (const ReportRow &row : rows) {
    if (row.op == "quantize") {
      ++casts[row.format];
      ++scaling[row.scaling];
      numByPrior += row.isByPrior;
    }
    if (row.isDot())
      ++dots[row.format];
  }
  if (auto count = llvm::count_if(rows, [](const ReportRow &row) {
        return row.op == "argument" && row.scaling == "measured";
      }))
    os << count << " arguments measured in each step\n";
  for (auto [format, count] : casts)
    os << count << " casts to " << format << "\n";
  for (auto [kind, count] : scaling)
    if (count > 0)
      os << count << " scales " << kind << "\n";
  if (numByPrior > 0)
    os << numByPrior << " scales depend on priors\n";
  for (auto [format, count] : dots)
    os << count << " dots " << format << "\n";
  for (const ReportRow &row : rows) {
    if (!row.isDot())
      continue;
    os << "  dot " << row.value << " " << row.format;
    if (!row.phase.empty())
      os << ", " << row.phase;
    if (!row.location.empty())
      os << ", " << row.location;
    os << ": " << row.reason << "\n";
  }
  return text;
}
