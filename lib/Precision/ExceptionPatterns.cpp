//===- ExceptionPatterns.cpp - A recipe's exceptions by name --------------===//
//
// A pattern with a slip in it would leave dots as they are without a word. What
// is not said: an exception for gradients in a program that has no backward,
// since one recipe serves the training step and the evaluation beside it; and
// any in a program without dots.
//
//===----------------------------------------------------------------------===//

#include "ExceptionPatterns.h"

#include "scalify/Dialect/Scalify/RecipeText.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Import/Locations.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace scalify;

/// The names in a location, as JAX nests them.
static void appendNames(Location loc, std::string &text) {
  loc->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part))
      text += name.getName().str() + "\n";
    return WalkResult::advance();
  });
}

ExceptionPatterns::ExceptionPatterns(RecipeAttr recipe) {
  for (const FormatOverride &exception : recipe.getOverrides()) {
    auto [only, pattern] = splitPattern(exception.pattern);
    entries.push_back(
        {exception, only, llvm::Regex(pattern, llvm::Regex::Newline), {}});
  }
}

ExceptionPatterns::Match ExceptionPatterns::match(Operation *dot, Value weight,
                                                  std::optional<DotKind> kind) {
  if (entries.empty())
    return {};
  hasDots = true;
  std::string names;
  appendNames(dot->getLoc(), names);
  if (std::string place = getNameStack(dot->getLoc()); !place.empty())
    places.insert(place);
  if (weight) {
    std::string name = getArgumentName(cast<BlockArgument>(weight));
    weights.insert(name);
    names += name;
  }
  if (kind)
    kinds.insert(*kind);
  Match result;
  for (Entry &entry : entries) {
    if (!entry.pattern.match(names))
      continue;
    entry.isNamed = true;
    if (kind)
      entry.kinds.insert(*kind);
    if (entry.only && entry.only != kind)
      continue;
    entry.isMet = true;
    const FormatOverride *&first =
        entry.exception.accumulation ? result.accumulation : result.formats;
    if (!first)
      first = &entry.exception;
  }
  return result;
}

/// Some of the names, and how many more there are.
static std::string list(StringRef what, const std::set<std::string> &names) {
  constexpr size_t kShown = 8;
  std::string text = what.str();
  for (const std::string &name :
       llvm::drop_end(names, names.size() - std::min(names.size(), kShown)))
    text += (text.size() == what.size() ? " " : ", ") + name;
  if (names.size() > kShown)
    text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

std::string ExceptionPatterns::describeUnmet(const Entry &entry) const {
  if (entry.isNamed) {
    std::string found =
        llvm::join(llvm::map_range(entry.kinds, &stringifyDotKind), ", ");
    return "meets dots, but none of this kind" +
           (found.empty() ? "" : ": they are " + found) +
           " (leave the kind out, or the exception)";
  }
  SmallVector<std::string> known;
  if (!weights.empty())
    known.push_back(list("weights", weights));
  if (!places.empty())
    known.push_back(list("places", places));
  return "meets no dot: " +
         (known.empty()
              ? "no dot of this program has a name (give its weight a "
                "scalify.name, or the dot a location with a name)"
              : "dots of this program are known by " +
                    llvm::join(known, " and by "));
}

LogicalResult ExceptionPatterns::checkAllMet(ModuleOp module, bool strict,
                                             bool remarks) const {
  LogicalResult result = success();
  bool hasBackward =
      kinds.count(DotKind::InputGrad) || kinds.count(DotKind::WeightGrad);
  for (const Entry &entry : entries) {
    bool isOfOtherPrograms =
        entry.only && entry.only != DotKind::Forward && !hasBackward;
    if (entry.isMet || !hasDots || (entry.isNamed && isOfOtherPrograms))
      continue;
    if (strict)
      result = failure();
    else if (!remarks)
      continue;
    InFlightDiagnostic note =
        strict ? module.emitError() : module.emitWarning();
    note << "part 'where' of the recipe has the pattern '"
         << entry.exception.pattern.getValue() << "', which "
         << describeUnmet(entry);
  }
  return result;
}
