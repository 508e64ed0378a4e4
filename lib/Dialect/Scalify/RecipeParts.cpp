//===- RecipeParts.cpp - The list of a recipe's parts ---------------------===//
//
// To add a part: one line in `makeParts` here and one field of the class Recipe
// in python/scalify/recipe.py. A new kind of value also needs its functions in
// RecipeValues.cpp.
//
//===----------------------------------------------------------------------===//

#include "RecipeParts.h"

using namespace mlir;
using namespace scalify;

using PartList = std::vector<std::unique_ptr<RecipePart>>;

RecipeFields::RecipeFields(RecipeAttr recipe)
    : scales(recipe.getScales()), forward(recipe.getForward()),
      gradient(recipe.getGradient()), roles(recipe.getRoles()),
      overrides(recipe.getOverrides()), storage(recipe.getStorage()),
      gradients(recipe.getGradients()), exponent(recipe.getGradientExponent()),
      rescale(recipe.getRescale()), priors(recipe.getPriors()),
      blocks(recipe.getBlocks()), delayed(recipe.getDelayed()),
      sums(recipe.getSums()) {}

namespace {
/// `GetFn` returns the value's field.
template <typename ValueT, typename GetFn> class PartOf : public RecipePart {
public:
  PartOf(StringRef name, std::string values, GetFn get)
      : RecipePart(name, std::move(values)), get(get) {}

  ParseResult parse(AsmParser &parser, RecipeFields &fields) const override {
    ValueT value{};
    if (parseValue(parser, value))
      return failure();
    get(fields) = value;
    return success();
  }

  llvm::json::Value toJSON(const RecipeFields &fields) const override {
    return scalify::toJSON(get(fields));
  }

  void write(llvm::raw_ostream &os,
             const llvm::json::Value &value) const override {
    if constexpr (std::is_same_v<ValueT, Exceptions>)
      writeExceptions(os, value);
    else
      writeValue(os, value, /*quotes=*/std::is_same_v<ValueT, Places>);
  }

private:
  GetFn get;
};

/// A shorthand that sets several fields of one kind; `get` returns the first,
/// and `spread` copies it to the others.
template <typename ValueT, typename GetFn, typename SpreadFn>
class ShorthandOf : public PartOf<ValueT, GetFn> {
public:
  ShorthandOf(StringRef name, std::string values, GetFn get, SpreadFn spread)
      : PartOf<ValueT, GetFn>(name, std::move(values), get), spread(spread) {}

  ParseResult parse(AsmParser &parser, RecipeFields &fields) const override {
    if (PartOf<ValueT, GetFn>::parse(parser, fields))
      return failure();
    spread(fields);
    return success();
  }

private:
  SpreadFn spread;
};
} // namespace

template <typename GetFn>
static void add(PartList &parts, StringRef name, const llvm::Twine &values,
                GetFn get) {
  using ValueT = std::decay_t<decltype(get(std::declval<RecipeFields &>()))>;
  parts.push_back(
      std::make_unique<PartOf<ValueT, GetFn>>(name, values.str(), get));
}

template <typename GetFn, typename SpreadFn>
static void addShorthand(PartList &parts, StringRef name, StringRef values,
                         GetFn get, SpreadFn spread) {
  using ValueT = std::decay_t<decltype(get(std::declval<RecipeFields &>()))>;
  parts.push_back(std::make_unique<ShorthandOf<ValueT, GetFn, SpreadFn>>(
      name, values.str(), get, spread));
}

/// Returns "a, b or c", from the names of an enum's cases.
template <typename EnumT> static std::string listCases(unsigned last) {
  std::string text;
  for (unsigned i = 0; i <= last; ++i)
    text += ((i == 0      ? ""
              : i == last ? " or "
                          : ", ") +
             stringifyEnum(static_cast<EnumT>(i)))
                .str();
  return text;
}

static constexpr StringLiteral kFormat =
    "a format (f8E4M3FN, f8E5M2, f16 or bf16)";
static constexpr StringLiteral kFormats =
    "true, false, wide, a format (f8E4M3FN, f8E5M2, f16, bf16, f32) or "
    "[forward, gradient] of two formats";
static constexpr StringLiteral kStorage =
    "given or a format (f8E4M3FN, f8E5M2, f16 or bf16)";
static constexpr StringLiteral kSizes =
    "[free, contracting], two integers, 0 for the whole dimension";

static PartList makeParts() {
  PartList parts;
  add(parts, "scales", listCases<ScaleSource>(getMaxEnumValForScaleSource()),
      [](auto &fields) -> auto & { return fields.scales; });
  add(parts, "forward", kFormat,
      [](auto &fields) -> auto & { return fields.forward; });
  add(parts, "gradient", kFormat,
      [](auto &fields) -> auto & { return fields.gradient; });
  for (unsigned i = 0; i <= getMaxEnumValForDotRole(); ++i) {
    auto role = static_cast<DotRole>(i);
    add(parts, stringifyDotRole(role), kFormats,
        [role](auto &fields) -> auto & { return fields.get(role); });
  }
  for (unsigned i = 0; i < kNumDotKinds; ++i)
    add(parts, stringifyDotKind(static_cast<DotKind>(i)), kFormats,
        [i](auto &fields) -> auto & { return fields.roles[kFirstKind + i]; });
  add(parts, "accumulation",
      listCases<Accumulation>(getMaxEnumValForAccumulation()) +
          ", or [forward_dot, input_grad, weight_grad] of these",
      [](auto &fields) -> auto & { return fields.sums; });
  add(parts, "unprofitable", kFormats,
      [](auto &fields) -> auto & { return fields.roles[kUnprofitable]; });
  add(parts, "sensitive", kFormats,
      [](auto &fields) -> auto & { return fields.roles[kSensitive]; });
  add(parts, "where",
      "{\"regular expression\" = formats, ...}, formats being " + kFormats +
          ", or fast or precise for how the dots are summed",
      [](auto &fields) -> auto & { return fields.overrides; });
  add(parts, "masters", kStorage,
      [](auto &fields) -> auto & { return fields.storage.masters; });
  add(parts, "first_moment", kStorage,
      [](auto &fields) -> auto & { return fields.storage.firstMoments; });
  add(parts, "second_moment", kStorage,
      [](auto &fields) -> auto & { return fields.storage.secondMoments; });
  add(parts, "state_rounding",
      listCases<RoundingMode>(getMaxEnumValForRoundingMode()),
      [](auto &fields) -> auto & { return fields.storage.rounding; });
  add(parts, "stored_gradient", kStorage,
      [](auto &fields) -> auto & { return fields.gradients.stored; });
  add(parts, "gradient_scaling",
      listCases<GradientScaling>(getMaxEnumValForGradientScaling()),
      [](auto &fields) -> auto & { return fields.gradients.scaling; });
  add(parts, "gradient_sum", kStorage,
      [](auto &fields) -> auto & { return fields.gradients.sum; });
  add(parts, "gradient_wire", kStorage,
      [](auto &fields) -> auto & { return fields.gradients.wire; });
  add(parts, "activation_wire", kStorage,
      [](auto &fields) -> auto & { return fields.storage.wire; });
  add(parts, "simulated_ranks", "an integer",
      [](auto &fields) -> auto & { return fields.gradients.ranks; });
  add(parts, "saved", kStorage,
      [](auto &fields) -> auto & { return fields.storage.saved; });
  add(parts, "gradient_exponent", "an integer",
      [](auto &fields) -> auto & { return fields.exponent; });
  add(parts, "block", kSizes,
      [](auto &fields) -> auto & { return fields.blocks.data; });
  add(parts, "weight_block", kSizes,
      [](auto &fields) -> auto & { return fields.blocks.weights; });
  add(parts, "history", "an integer",
      [](auto &fields) -> auto & { return fields.delayed.history; });
  add(parts, "history_use", listCases<HistoryUse>(getMaxEnumValForHistoryUse()),
      [](auto &fields) -> auto & { return fields.delayed.use; });
  add(parts, "margin", "an integer",
      [](auto &fields) -> auto & { return fields.delayed.margin; });
  add(parts, "rescale",
      "a list of \"residual\", \"residual_grad\" and regular expressions",
      [](auto &fields) -> auto & { return fields.rescale; });
  add(parts, "priors", "a list of names, of \"default\" or of \"none\"",
      [](auto &fields) -> auto & { return fields.priors; });
  return parts;
}

static PartList makeShorthands() {
  PartList parts;
  addShorthand(
      parts, "attention", kFormats,
      [](auto &fields) -> auto & { return fields.get(DotRole::AttentionQK); },
      [](RecipeFields &fields) {
        fields.get(DotRole::AttentionPV) = fields.get(DotRole::AttentionDS) =
            fields.get(DotRole::AttentionQK);
      });
  addShorthand(
      parts, "moments", kStorage,
      [](auto &fields) -> auto & { return fields.storage.firstMoments; },
      [](RecipeFields &fields) {
        fields.storage.secondMoments = fields.storage.firstMoments;
      });
  addShorthand(
      parts, "state", kStorage,
      [](auto &fields) -> auto & { return fields.storage.masters; },
      [](RecipeFields &fields) {
        fields.storage.firstMoments = fields.storage.secondMoments =
            fields.storage.masters;
      });
  return parts;
}

const PartList &scalify::getRecipeParts() {
  static const PartList parts = makeParts();
  return parts;
}

const PartList &scalify::getRecipeShorthands() {
  static const PartList parts = makeShorthands();
  return parts;
}

const RecipePart *scalify::findRecipePart(StringRef name) {
  for (const PartList *list : {&getRecipeParts(), &getRecipeShorthands()})
    for (const std::unique_ptr<RecipePart> &part : *list)
      if (part->name == name)
        return part.get();
  return nullptr;
}
