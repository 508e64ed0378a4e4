//===- ExceptionPatterns.cpp - A recipe's exceptions by name --------------===//
//
// A pattern with a typo would silently match no dot, so such patterns are
// reported. Not reported are exceptions for gradients in a program without a
// backward, since one recipe serves the training step and its evaluation, and
// any exceptions in a program without dots.
//
//===----------------------------------------------------------------------===//

#include "ExceptionPatterns.h"

#include "scalify/Dialect/Scalify/RecipeText.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Import/Locations.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace scalify;

/// Appends the names in a location, which JAX nests, to `text`.
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

/// Lists some of the names, and the number of the others.
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
    return "matches dots, but none of this kind" +
           (found.empty() ? "" : ": they are " + found) +
           " (leave the kind out, or the exception)";
  }
  SmallVector<std::string> known;
  if (!weights.empty())
    known.push_back(list("weights", weights));
  if (!places.empty())
    known.push_back(list("places", places));
  return "matches no dot: " +
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
