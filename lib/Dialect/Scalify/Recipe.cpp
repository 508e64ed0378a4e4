//===- Recipe.cpp - Presets, parsing and printing of recipes --------------===//

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace scalify;

namespace {
struct Preset {
  llvm::StringLiteral name;
  ScaleSource scales;
  int64_t gradientExponent;
};
} // namespace

// `fp8-plain-scaled` is the strong control: plain casts under one constant
// loss scale of 2^16, which on an easy model ties with propagation.
static constexpr Preset kPresets[] = {
    {"none", ScaleSource::None, 0},
    {"fp8", ScaleSource::Propagated, 0},
    {"fp8-current", ScaleSource::Current, 0},
    {"fp8-plain", ScaleSource::Unit, 0},
    {"fp8-plain-scaled", ScaleSource::Unit, -16},
};

ArrayRef<StringRef> RecipeAttr::getPresetNames() {
  static const SmallVector<StringRef> names = llvm::map_to_vector(
      kPresets, [](const Preset &preset) -> StringRef { return preset.name; });
  return names;
}

RecipeAttr RecipeAttr::getPreset(MLIRContext *context, StringRef name) {
  for (const Preset &preset : kPresets)
    if (preset.name == name)
      return get(context, StringAttr::get(context, name), preset.scales,
                 Float8E4M3FNType::get(context), Float8E5M2Type::get(context),
                 /*attention=*/false, /*head=*/false, preset.gradientExponent);
  return {};
}

RecipeAttr RecipeAttr::of(Operation *module) {
  if (auto recipe = module->getAttrOfType<RecipeAttr>(kRecipeAttr))
    return recipe;
  return getPreset(module->getContext(), "none");
}

static ParseResult parseBool(AsmParser &parser, bool &value) {
  StringRef keyword;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  if (keyword != "true" && keyword != "false")
    return parser.emitError(loc, "expected 'true' or 'false'");
  value = keyword == "true";
  return success();
}

Attribute RecipeAttr::parse(AsmParser &parser, Type) {
  std::string name;
  if (parser.parseLess() || parser.parseString(&name))
    return {};
  RecipeAttr base = getPreset(parser.getContext(), name);
  // A name of the user's own starts from `fp8`.
  if (!base)
    base = getPreset(parser.getContext(), "fp8");
  ScaleSource scales = base.getScales();
  Type forward = base.getForward(), gradient = base.getGradient();
  bool attention = base.getAttention(), head = base.getHead();
  int64_t exponent = base.getGradientExponent();
  while (succeeded(parser.parseOptionalComma())) {
    StringRef key, value;
    llvm::SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&key) || parser.parseEqual())
      return {};
    ParseResult parsed = success();
    if (key == "scales") {
      parsed = parser.parseKeyword(&value);
      std::optional<ScaleSource> source = symbolizeScaleSource(value);
      if (!source)
        return parser.emitError(loc, "unknown source of scales '")
                   << value << "': expected none, propagated, current or unit",
               Attribute();
      scales = *source;
    } else if (key == "forward" || key == "gradient") {
      parsed = parser.parseType(key == "forward" ? forward : gradient);
    } else if (key == "attention" || key == "head") {
      parsed = parseBool(parser, key == "head" ? head : attention);
    } else if (key == "gradient_exponent") {
      parsed = parser.parseInteger(exponent);
    } else {
      return parser.emitError(loc, "unknown part '") << key << "' of a recipe",
             Attribute();
    }
    if (parsed)
      return {};
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), StringAttr::get(parser.getContext(), name),
             scales, forward, gradient, attention, head, exponent);
}

void RecipeAttr::print(AsmPrinter &printer) const {
  RecipeAttr base = getPreset(getContext(), getName());
  if (!base)
    base = getPreset(getContext(), "fp8");
  printer << '<' << getName();
  if (getScales() != base.getScales())
    printer << ", scales = " << stringifyScaleSource(getScales());
  if (getForward() != base.getForward())
    printer << ", forward = " << getForward();
  if (getGradient() != base.getGradient())
    printer << ", gradient = " << getGradient();
  if (getAttention() != base.getAttention())
    printer << ", attention = " << (getAttention() ? "true" : "false");
  if (getHead() != base.getHead())
    printer << ", head = " << (getHead() ? "true" : "false");
  if (getGradientExponent() != base.getGradientExponent())
    printer << ", gradient_exponent = " << getGradientExponent();
  printer << '>';
}
