//===- RecipeAssembly.cpp - Parsing and printing of recipes ---------------===//
//
// A recipe is printed as its preset and what differs from it. To add a part:
// one branch in `RecipeParser::parsePart`, one line in `RecipeAttr::print`.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace scalify;

/// A name of the user's own starts from `fp8`.
static RecipeAttr getBase(MLIRContext *context, StringRef name) {
  RecipeAttr base = RecipeAttr::getPreset(context, name);
  return base ? base : RecipeAttr::getPreset(context, "fp8");
}

static constexpr DotRole kAttention[] = {
    DotRole::AttentionQK, DotRole::AttentionPV, DotRole::AttentionDS};

namespace {
class RecipeParser {
public:
  explicit RecipeParser(AsmParser &parser) : parser(parser) {}
  RecipeAttr parse();

private:
  ParseResult parsePart();
  ParseResult parseScales();
  ParseResult parseFormats(DotFormats &formats);
  ParseResult parseOverrides();
  ParseResult parseStorage(Type &format);
  ParseResult parseRescale();
  ParseResult parseBlock(std::array<int64_t, 2> &sizes);
  ParseResult parseHistoryUse();
  DotFormats &get(DotRole role) { return roles[static_cast<unsigned>(role)]; }

  AsmParser &parser;
  ScaleSource scales = ScaleSource::None;
  Type forward, gradient;
  RoleFormats roles;
  SmallVector<FormatOverride> overrides;
  StorageFormats storage;
  int64_t exponent = 0;
  DelayedScaling delayed;
  SmallVector<StringAttr> rescale;
  BlockSizes blocks;
};
} // namespace

ParseResult RecipeParser::parseScales() {
  StringRef value;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&value))
    return failure();
  std::optional<ScaleSource> source = symbolizeScaleSource(value);
  if (!source)
    return parser.emitError(loc, "unknown source of scales '")
           << value
           << "': expected none, propagated, current, block, "
              "delayed or unit";
  scales = *source;
  return success();
}

/// `true`, `false`, `wide`, a type, or `[a, b]`.
ParseResult RecipeParser::parseFormats(DotFormats &formats) {
  Type wide = parser.getBuilder().getF32Type();
  if (succeeded(parser.parseOptionalKeyword("true"))) {
    formats = {};
    return success();
  }
  if (succeeded(parser.parseOptionalKeyword("false")) ||
      succeeded(parser.parseOptionalKeyword("wide"))) {
    formats = {wide, wide};
    return success();
  }
  if (succeeded(parser.parseOptionalLSquare()))
    return failure(parser.parseType(formats.forward) || parser.parseComma() ||
                   parser.parseType(formats.gradient) || parser.parseRSquare());
  Type type;
  OptionalParseResult parsed = parser.parseOptionalType(type);
  if (!parsed.has_value())
    return parser.emitError(parser.getCurrentLocation(),
                            "expected 'true', 'false', 'wide', a type or "
                            "'[forward, gradient]'");
  formats = {type, type};
  return *parsed;
}

/// `{"pattern" = formats, ...}`
ParseResult RecipeParser::parseOverrides() {
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Braces, [&]() -> ParseResult {
        FormatOverride entry;
        std::string pattern;
        if (parser.parseString(&pattern) || parser.parseEqual() ||
            parseFormats(entry.formats))
          return failure();
        entry.pattern = parser.getBuilder().getStringAttr(pattern);
        overrides.push_back(entry);
        return success();
      });
}

ParseResult RecipeParser::parseStorage(Type &format) {
  format = {};
  if (succeeded(parser.parseOptionalKeyword("given")))
    return success();
  return parser.parseType(format);
}

/// `["place", ...]`
ParseResult RecipeParser::parseRescale() {
  rescale.clear();
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Square, [&]() -> ParseResult {
        std::string place;
        if (parser.parseString(&place))
          return failure();
        rescale.push_back(parser.getBuilder().getStringAttr(place));
        return success();
      });
}

/// `[free, contracting]`
ParseResult RecipeParser::parseBlock(std::array<int64_t, 2> &sizes) {
  return failure(parser.parseLSquare() || parser.parseInteger(sizes[0]) ||
                 parser.parseComma() || parser.parseInteger(sizes[1]) ||
                 parser.parseRSquare());
}

ParseResult RecipeParser::parseHistoryUse() {
  StringRef value;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&value))
    return failure();
  std::optional<HistoryUse> use = symbolizeHistoryUse(value);
  if (!use)
    return parser.emitError(loc, "unknown use of a history '")
           << value << "': expected max or most_recent";
  delayed.use = *use;
  return success();
}

ParseResult RecipeParser::parsePart() {
  StringRef key;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&key) || parser.parseEqual())
    return failure();
  if (key == "scales")
    return parseScales();
  if (key == "forward" || key == "gradient")
    return parser.parseType(key == "forward" ? forward : gradient);
  if (std::optional<DotRole> role = symbolizeDotRole(key))
    return parseFormats(get(*role));
  if (key == "attention") {
    DotFormats formats;
    if (parseFormats(formats))
      return failure();
    for (DotRole role : kAttention)
      get(role) = formats;
    return success();
  }
  if (key == "where")
    return parseOverrides();
  if (key == "masters" || key == "moments" || key == "saved")
    return parseStorage(key == "masters"   ? storage.masters
                        : key == "moments" ? storage.moments
                                           : storage.saved);
  if (key == "state") {
    if (parseStorage(storage.masters))
      return failure();
    storage.moments = storage.masters;
    return success();
  }
  if (key == "rescale")
    return parseRescale();
  if (key == "block" || key == "weight_block")
    return parseBlock(key == "block" ? blocks.data : blocks.weights);
  if (key == "gradient_exponent")
    return parser.parseInteger(exponent);
  if (key == "history_use")
    return parseHistoryUse();
  if (key == "history" || key == "margin")
    return parser.parseInteger(key == "history" ? delayed.history
                                                : delayed.margin);
  return parser.emitError(loc, "unknown part '") << key << "' of a recipe";
}

RecipeAttr RecipeParser::parse() {
  std::string name;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseString(&name))
    return {};
  RecipeAttr base = getBase(parser.getContext(), name);
  scales = base.getScales();
  forward = base.getForward();
  gradient = base.getGradient();
  llvm::copy(base.getRoles(), roles.begin());
  overrides.assign(base.getOverrides().begin(), base.getOverrides().end());
  storage = base.getStorage();
  exponent = base.getGradientExponent();
  blocks = base.getBlocks();
  delayed = base.getDelayed();
  while (succeeded(parser.parseOptionalComma()))
    if (parsePart())
      return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<RecipeAttr>(
      loc, parser.getContext(), parser.getBuilder().getStringAttr(name), scales,
      forward, gradient, ArrayRef<DotFormats>(roles),
      ArrayRef<FormatOverride>(overrides), storage, exponent,
      ArrayRef<StringAttr>(rescale), blocks, delayed);
}

Attribute RecipeAttr::parse(AsmParser &parser, Type) {
  return RecipeParser(parser).parse();
}

static void printFormats(AsmPrinter &printer, DotFormats formats) {
  if (!formats.forward && !formats.gradient)
    printer << "true";
  else if (formats.forward != formats.gradient)
    printer << '[' << formats.forward << ", " << formats.gradient << ']';
  else if (formats.forward.isF32())
    printer << "false";
  else
    printer << formats.forward;
}

static void printRoles(AsmPrinter &printer, RecipeAttr recipe,
                       RecipeAttr base) {
  auto get = [](RecipeAttr attr, DotRole role) {
    return attr.getRoles()[static_cast<unsigned>(role)];
  };
  auto differs = [&](DotRole role) {
    return get(recipe, role) != get(base, role);
  };
  DotFormats attention = get(recipe, DotRole::AttentionQK);
  bool isOne = llvm::all_of(kAttention, [&](DotRole role) {
    return differs(role) && get(recipe, role) == attention;
  });
  if (isOne) {
    printer << ", attention = ";
    printFormats(printer, attention);
  }
  for (unsigned i = 0; i < recipe.getRoles().size(); ++i) {
    auto role = static_cast<DotRole>(i);
    if (!differs(role) || (isOne && llvm::is_contained(kAttention, role)))
      continue;
    printer << ", " << stringifyDotRole(role) << " = ";
    printFormats(printer, get(recipe, role));
  }
}

static void printStorage(AsmPrinter &printer, StringRef part, Type format,
                         Type base) {
  if (format == base)
    return;
  printer << ", " << part << " = ";
  if (format)
    printer << format;
  else
    printer << "given";
}

static void printBlock(AsmPrinter &printer, StringRef part,
                       std::array<int64_t, 2> sizes,
                       std::array<int64_t, 2> base) {
  if (sizes != base)
    printer << ", " << part << " = [" << sizes[0] << ", " << sizes[1] << ']';
}

void RecipeAttr::print(AsmPrinter &printer) const {
  RecipeAttr base = getBase(getContext(), getName());
  printer << '<' << getName();
  if (getScales() != base.getScales())
    printer << ", scales = " << stringifyScaleSource(getScales());
  if (getForward() != base.getForward())
    printer << ", forward = " << getForward();
  if (getGradient() != base.getGradient())
    printer << ", gradient = " << getGradient();
  printRoles(printer, *this, base);
  if (!getOverrides().empty()) {
    printer << ", where = {";
    llvm::interleaveComma(getOverrides(), printer,
                          [&](const FormatOverride &entry) {
                            printer << entry.pattern << " = ";
                            printFormats(printer, entry.formats);
                          });
    printer << '}';
  }
  StorageFormats own = getStorage(), other = base.getStorage();
  printStorage(printer, "masters", own.masters, other.masters);
  printStorage(printer, "moments", own.moments, other.moments);
  printStorage(printer, "saved", own.saved, other.saved);
  if (getGradientExponent() != base.getGradientExponent())
    printer << ", gradient_exponent = " << getGradientExponent();
  BlockSizes blocks = getBlocks(), others = base.getBlocks();
  printBlock(printer, "block", blocks.data, others.data);
  printBlock(printer, "weight_block", blocks.weights, others.weights);
  DelayedScaling delayed = getDelayed(), given = base.getDelayed();
  if (delayed.history != given.history)
    printer << ", history = " << delayed.history;
  if (delayed.use != given.use)
    printer << ", history_use = " << stringifyHistoryUse(delayed.use);
  if (delayed.margin != given.margin)
    printer << ", margin = " << delayed.margin;
  if (!getRescale().empty()) {
    printer << ", rescale = [";
    llvm::interleaveComma(getRescale(), printer);
    printer << ']';
  }
  printer << '>';
}
