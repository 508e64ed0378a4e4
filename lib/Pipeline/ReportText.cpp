//===- ReportText.cpp - Reports as JSON and as lines ----------------------===//

#include "scalify/Pipeline/ScaleReport.h"
#include "scalify/Pipeline/Why.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace scalify;
namespace json = llvm::json;

std::string scalify::formatScale(std::optional<int64_t> exponent) {
  return exponent ? "2^" + std::to_string(*exponent) : "";
}

std::string scalify::formatFacts(const ScaleRow &row) {
  if (!row.rms)
    return "";
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "mean " << llvm::format("%.3g", row.mean.value_or(0)) << ", rms "
     << llvm::format("%.3g", *row.rms);
  if (row.bound && std::isfinite(*row.bound))
    os << ", bound " << llvm::format("%.3g", *row.bound);
  return text;
}

/// Empty and unknown members are left out: a deep step has thousands of rows.
static json::Object toJSON(const ScaleRow &row) {
  json::Object object{{"id", row.id},         {"value", row.value},
                      {"op", row.op},         {"loc", row.location},
                      {"format", row.format}, {"from", json::Array(row.from)}};
  object["scale"] = row.scale ? json::Value(*row.scale) : json::Value(nullptr);
  auto setText = [&](llvm::StringRef key, const std::string &text) {
    if (!text.empty())
      object[key] = text;
  };
  auto setNumber = [&](llvm::StringRef key, std::optional<double> number) {
    if (number && std::isfinite(*number))
      object[key] = *number;
  };
  setText("source", row.source);
  setText("phase", row.phase);
  setText("rule", row.rule);
  setText("reason", row.reason);
  setText("cast", row.cast);
  setText("range", row.range);
  setText("scaling", row.scaling);
  setNumber("mean", row.mean);
  setNumber("rms", row.rms);
  setNumber("bound", row.bound);
  setNumber("headroom", row.headroom);
  if (row.isByPrior)
    object["by_prior"] = true;
  if (row.isWide)
    object["wide"] = true;
  if (row.isInBody)
    object["body"] = true;
  if (row.isDropped)
    object["dropped"] = true;
  return object;
}

/// `dot: sqrt(K = 64)` counts as `dot`.
static std::string getRuleFamily(llvm::StringRef rule) {
  return rule.split(':').first.split(" over ").first.str();
}

template <typename Map> static json::Object toObject(const Map &counts) {
  json::Object object;
  for (const auto &[key, count] : counts)
    object[key] = count;
  return object;
}

namespace {
/// The frequencies of rules, scales, formats and reasons.
struct Summary {
  explicit Summary(const ScaleReport &report);
  std::map<std::string, unsigned> rules, casts, scaling, dots, wide;
  std::map<int64_t, unsigned> scales;
};
} // namespace

Summary::Summary(const ScaleReport &report) {
  for (const ScaleRow &row : report.rows) {
    if (row.op == "quantize") {
      ++casts[row.format];
      ++scaling[row.scaling];
    }
    if (row.isDot() && !row.isDropped)
      ++dots[row.format];
    if (!row.reason.empty())
      ++wide[row.reason];
    if (!row.scale)
      continue;
    ++scales[*row.scale];
    if (!row.rule.empty())
      ++rules[getRuleFamily(row.rule)];
  }
}

static json::Array toJSON(const std::vector<OpCounts> &counts) {
  json::Array array;
  for (const OpCounts &entry : counts)
    array.push_back(json::Object{{"after", entry.after},
                                 {"ops", entry.ops},
                                 {"scale_ops", toObject(entry.scaleOps)}});
  return array;
}

json::Value scalify::toJSON(const ScaleReport &report) {
  Summary summary(report);
  json::Object scales;
  for (auto [exponent, count] : summary.scales)
    scales[std::to_string(exponent)] = count;
  json::Array rows;
  for (const ScaleRow &row : report.rows)
    rows.push_back(::toJSON(row));
  return json::Object{
      {"schema", "scalify.report/1"},
      {"recipe", report.recipe},
      {"summary", json::Object{{"values", report.rows.size()},
                               {"rules", toObject(summary.rules)},
                               {"scales", std::move(scales)},
                               {"casts", toObject(summary.casts)},
                               {"scaling", toObject(summary.scaling)},
                               {"dots", toObject(summary.dots)},
                               {"wide", toObject(summary.wide)},
                               {"ops", ::toJSON(report.counts)}}},
      {"rows", std::move(rows)}};
}

static void writeCounts(llvm::raw_ostream &os,
                        const std::vector<OpCounts> &counts) {
  for (const OpCounts &entry : counts) {
    os << "after " << entry.after << ": " << entry.ops << " ops";
    for (const auto &[kind, count] : entry.scaleOps)
      os << ", " << count << " " << kind;
    os << "\n";
  }
}

static void writeRow(llvm::raw_ostream &os, const ScaleRow &row) {
  std::string scale = formatScale(row.scale);
  os << llvm::left_justify(row.value, 8) << " "
     << llvm::left_justify(row.op, 18) << " "
     << llvm::left_justify(scale.empty() ? "-" : scale, 6) << " "
     << llvm::left_justify(row.format, 10);
  if (!row.cast.empty())
    os << " " << row.cast << ", scale " << row.scaling
       << (row.isByPrior ? " (depends on priors)," : ",");
  if (!row.phase.empty())
    os << " " << row.phase << ",";
  os << " " << (row.rule.empty() ? "no rule" : row.rule);
  if (std::string facts = formatFacts(row); !facts.empty())
    os << " [" << facts << "]";
  if (row.headroom)
    os << ", headroom " << llvm::format("%.1f", *row.headroom);
  if (!row.reason.empty())
    os << "; " << row.reason;
  if (!row.range.empty())
    os << ", range " << row.range;
  if (row.isDropped)
    os << "; folded away";
  if (!row.location.empty())
    os << " at " << row.location;
  os << "\n";
}

std::string scalify::toText(const ScaleReport &report) {
  std::string text;
  llvm::raw_string_ostream os(text);
  Summary summary(report);
  os << "recipe " << report.recipe << ", " << report.rows.size() << " values\n";
  writeCounts(os, report.counts);
  for (const auto &[format, count] : summary.casts)
    os << count << " casts to " << format << "\n";
  for (const auto &[format, count] : summary.dots)
    os << count << " dots " << format << "\n";
  for (const auto &[scaling, count] : summary.scaling)
    os << count << " scales " << scaling << "\n";
  for (const auto &[reason, count] : summary.wide)
    os << count << " dots: " << reason << "\n";
  os << "rules:";
  for (const auto &[rule, count] : summary.rules)
    os << " " << rule << " x" << count << ";";
  os << "\nscales:";
  for (auto [exponent, count] : summary.scales)
    os << " 2^" << exponent << " x" << count << ";";
  os << "\n\n";
  for (const ScaleRow &row : report.rows)
    writeRow(os, row);
  return text;
}

json::Value scalify::toJSON(const ScaleReport &report,
                            const std::vector<WhyLine> &why) {
  json::Array lines;
  for (const WhyLine &line : why) {
    json::Object object = ::toJSON(report.rows[line.id]);
    object["depth"] = line.depth;
    if (line.isRepeated)
      object["repeated"] = true;
    if (line.isCut)
      object["cut"] = true;
    lines.push_back(std::move(object));
  }
  return json::Object{{"schema", "scalify.why/1"},
                      {"recipe", report.recipe},
                      {"lines", std::move(lines)}};
}
