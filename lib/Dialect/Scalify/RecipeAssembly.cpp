//===- RecipeAssembly.cpp - Recipes as text and as JSON -------------------===//
//
// A recipe is printed as its preset and the parts that differ from it.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/RecipeText.h"

#include "RecipeParts.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace scalify;

/// A name other than a preset's starts from `fp8`.
static RecipeAttr getBase(MLIRContext *context, StringRef name) {
  RecipeAttr base = RecipeAttr::getPreset(context, name);
  return base ? base : RecipeAttr::getPreset(context, "fp8");
}

/// Parses a part and adds it to `given`, the earlier parts.
static ParseResult parsePart(AsmParser &parser, RecipeFields &fields,
                             llvm::StringSet<> &given) {
  StringRef key;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&key))
    return failure();
  const RecipePart *part = findRecipePart(key);
  if (!part)
    return parser.emitError(loc, "unknown part '")
           << key << "' of a recipe: expected one of "
           << llvm::join(getRecipePartNames(), ", ");
  if (!given.insert(key).second)
    return parser.emitError(loc, "part '")
           << key << "' of a recipe is given twice: leave out one of the two";
  if (parser.parseEqual())
    return failure();
  loc = parser.getCurrentLocation();
  if (succeeded(part->parse(parser, fields)))
    return success();
  return parser.emitError(loc, "part '")
         << key << "' of a recipe is '" << extractValueText(loc.getPointer())
         << "': expected " << part->values;
}

Attribute RecipeAttr::parse(AsmParser &parser, Type) {
  std::string name;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseString(&name))
    return {};
  RecipeFields fields(getBase(parser.getContext(), name));
  llvm::StringSet<> given;
  while (succeeded(parser.parseOptionalComma()))
    if (parsePart(parser, fields, given))
      return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<RecipeAttr>(
      loc, parser.getContext(), parser.getBuilder().getStringAttr(name),
      fields.scales, fields.forward, fields.gradient,
      ArrayRef<DotFormats>(fields.roles),
      ArrayRef<FormatOverride>(fields.overrides), fields.storage,
      fields.gradients, fields.exponent, ArrayRef<StringAttr>(fields.rescale),
      ArrayRef<StringAttr>(fields.priors), fields.blocks, fields.delayed,
      fields.sums);
}

static std::string toText(const RecipePart &part, const RecipeFields &fields) {
  std::string text;
  llvm::raw_string_ostream os(text);
  part.print(os, fields);
  return text;
}

using PrintedParts = SmallVector<std::pair<StringRef, std::string>>;

/// Replaces parts that all differ from the base and have equal values by a
/// shorthand.
static void joinParts(PrintedParts &parts, StringRef shorthand,
                      ArrayRef<StringRef> names) {
  auto isNamed = [&](const auto &part) {
    return llvm::is_contained(names, part.first);
  };
  auto first = llvm::find_if(parts, isNamed);
  auto isSame = [&](const auto &part) {
    return isNamed(part) && part.second == first->second;
  };
  if (llvm::count_if(parts, isSame) != static_cast<int64_t>(names.size()))
    return;
  first->first = shorthand;
  parts.erase(std::remove_if(first + 1, parts.end(), isNamed), parts.end());
}

void RecipeAttr::print(AsmPrinter &printer) const {
  RecipeFields base(getBase(getContext(), getName())), own(*this);
  PrintedParts parts;
  for (const std::unique_ptr<RecipePart> &part : getRecipeParts()) {
    std::string value = toText(*part, own);
    if (value != toText(*part, base))
      parts.push_back({part->name, std::move(value)});
  }
  joinParts(parts, "attention",
            {"attention_qk", "attention_pv", "attention_ds"});
  joinParts(parts, "moments", {"first_moment", "second_moment"});
  printer << '<' << getName();
  for (const auto &[name, value] : parts)
    printer << ", " << name << " = " << value;
  printer << '>';
}

SmallVector<StringRef> scalify::getRecipePartNames(bool withShorthands) {
  SmallVector<StringRef> names;
  for (const std::unique_ptr<RecipePart> &part : getRecipeParts())
    names.push_back(part->name);
  if (withShorthands)
    for (const std::unique_ptr<RecipePart> &part : getRecipeShorthands())
      names.push_back(part->name);
  return names;
}

llvm::json::Object scalify::toJSON(RecipeAttr recipe) {
  RecipeFields fields(recipe);
  llvm::json::Object object{{"name", recipe.getName().str()}};
  for (const std::unique_ptr<RecipePart> &part : getRecipeParts())
    object[part->name] = part->toJSON(fields);
  return object;
}

/// The value of an unknown part is written too; the parser reports it.
std::string scalify::makeRecipeText(StringRef name,
                                    const llvm::json::Array &parts) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "#scalify.recipe<";
  writeValue(os, name, /*quotes=*/true);
  for (const llvm::json::Value &entry : parts) {
    const llvm::json::Array &pair = *entry.getAsArray();
    StringRef key = *pair[0].getAsString();
    os << ", " << key << " = ";
    if (const RecipePart *part = findRecipePart(key))
      part->write(os, pair[1]);
    else
      writeValue(os, pair[1]);
  }
  os << '>';
  return text;
}
