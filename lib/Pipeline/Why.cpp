//===- Why.cpp - The chain of rules that led to one scale -----------------===//

#include "scalify/Pipeline/Why.h"

using namespace scalify;

/// The most matches that a message lists.
static constexpr size_t kMaxMatches = 6;

/// Returns the names that denote a row.
static std::vector<std::string> getNames(const ScaleRow &row) {
  std::vector<std::string> names{row.value};
  for (const std::string &other : {row.source, row.cast})
    if (!other.empty() && other != row.value)
      names.push_back(other);
  return names;
}

static std::string quote(const ScaleRow &row) {
  std::string text = "#" + std::to_string(row.id) + " ";
  text += row.cast.empty() ? row.value : row.cast;
  return text + " (" + row.op +
         (row.location.empty() ? "" : " at " + row.location) + ")";
}

static std::string listRows(const ScaleReport &report,
                            const std::vector<int64_t> &ids) {
  std::string text;
  for (size_t i = 0; i < std::min(ids.size(), kMaxMatches); ++i)
    text += (i ? ", " : "") + quote(report.rows[ids[i]]);
  if (ids.size() > kMaxMatches)
    text += ", and " + std::to_string(ids.size() - kMaxMatches) + " more";
  return text;
}

/// Returns the names with the smallest edit distance to `name`.
static std::string listNear(const ScaleReport &report, llvm::StringRef name) {
  std::vector<std::pair<unsigned, std::string>> near;
  for (const ScaleRow &row : report.rows)
    for (const std::string &candidate : getNames(row)) {
      unsigned distance = name.edit_distance(candidate, true,
                                             /*MaxEditDistance=*/4);
      if (!candidate.empty() && distance <= 1 + name.size() / 3)
        near.emplace_back(distance, candidate);
    }
  llvm::sort(near);
  std::string text;
  for (size_t i = 0; i < std::min(near.size(), kMaxMatches); ++i)
    text += (i ? ", '" : "'") + near[i].second + "'";
  return text;
}

llvm::Expected<int64_t> scalify::findRow(const ScaleReport &report,
                                         llvm::StringRef name) {
  name = name.trim();
  std::vector<int64_t> exact, partial;
  int64_t place;
  if (name.starts_with("#") && !name.drop_front().getAsInteger(10, place) &&
      place >= 0 && place < static_cast<int64_t>(report.rows.size()))
    return place;
  for (const ScaleRow &row : report.rows) {
    if (llvm::is_contained(getNames(row), name))
      exact.push_back(row.id);
    else if (!name.empty() && llvm::StringRef(row.location).contains(name))
      partial.push_back(row.id);
  }
  // If Import expanded one op of the text, the last of its ops has its result.
  bool isOnePlace = llvm::all_of(exact, [&](int64_t id) {
    return report.rows[id].location == report.rows[exact.front()].location;
  });
  if (!exact.empty() && isOnePlace)
    return exact.back();
  const std::vector<int64_t> &found = exact.empty() ? partial : exact;
  if (found.size() == 1)
    return found.front();
  std::string message;
  if (found.size() > 1) {
    message = std::to_string(found.size()) + " values match '" + name.str() +
              "': " + listRows(report, found);
  } else {
    message = "no value is called '" + name.str() + "'";
    if (std::string near = listNear(report, name); !near.empty())
      message += "; near it: " + near;
    message += " (give a value such as '%4', an argument's name, a cast such "
               "as 'c0', or a part of a location; a value that Import folded "
               "or merged with an equal one has no scale of its own)";
  }
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

namespace {
class Explainer {
public:
  Explainer(const ScaleReport &report, unsigned most)
      : report(report), most(most) {}
  void visit(int64_t id, unsigned depth);
  std::vector<WhyLine> lines;

private:
  const ScaleReport &report;
  unsigned most;
  llvm::DenseSet<int64_t> seen;
};
} // namespace

// Uses an explicit stack: chains of a deep step are thousands of ops long.
void Explainer::visit(int64_t root, unsigned start) {
  std::vector<std::pair<int64_t, unsigned>> stack{{root, start}};
  while (!stack.empty()) {
    auto [id, depth] = stack.back();
    stack.pop_back();
    const std::vector<int64_t> &from = report.rows[id].from;
    bool isRepeated = seen.contains(id);
    bool isCut = !isRepeated && most && depth >= most && !from.empty();
    lines.push_back({id, depth, isRepeated && !from.empty(), isCut});
    if (isRepeated || isCut)
      continue;
    seen.insert(id);
    for (int64_t source : llvm::reverse(from))
      stack.emplace_back(source, depth + 1);
  }
}

std::vector<WhyLine> scalify::explainScale(const ScaleReport &report,
                                           int64_t id, unsigned depth) {
  Explainer explainer(report, depth);
  explainer.visit(id, 0);
  return std::move(explainer.lines);
}

static std::string describeRow(const ScaleRow &row) {
  std::string text = row.cast.empty() ? row.value : row.cast;
  if (text.empty())
    text = "#" + std::to_string(row.id);
  text += " = " + row.op;
  if (std::string scale = formatScale(row.scale); !scale.empty())
    text += ", " + scale;
  if (!row.rule.empty())
    text += ", " + row.rule;
  if (std::string facts = formatFacts(row); !facts.empty())
    text += " [" + facts + "]";
  if (!row.reason.empty())
    text += "; " + row.reason;
  if (!row.location.empty())
    text += " at " + row.location;
  return text;
}

std::string scalify::toText(const ScaleReport &report,
                            const std::vector<WhyLine> &why) {
  std::string text;
  for (const WhyLine &line : why) {
    text +=
        std::string(2 * line.depth, ' ') + describeRow(report.rows[line.id]);
    if (line.isRepeated)
      text += " (see above)";
    else if (line.isCut)
      text += " (" + std::to_string(report.rows[line.id].from.size()) +
              " more below)";
    text += "\n";
  }
  return text;
}
