//===- DotFormats.cpp - Choose the formats of dots ------------------------===//
//
// A dot takes the formats of its role or its kind, unless an exception matches
// the name of its weight or its location. Then, if the recipe asks for it, dots
// that FP8 would make slower get other formats, and so do dots whose rounding
// moves gradients too far.
//
//===----------------------------------------------------------------------===//

#include "DotFormats.h"

#include "DotCost.h"
#include "DotDecisions.h"
#include "PlainForm.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Scaling/NoiseAnalysis.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify;

/// The parts of decisions by the noise analysis: the recipe's formats for
/// sensitive dots, and F32 where these do not suffice.
static constexpr llvm::StringLiteral kSensitivePart = "sensitive";
static constexpr llvm::StringLiteral kSensitiveWidePart = "sensitive_wide";

static DotFormats getWide(Operation *op) {
  Type wide = Float32Type::get(op->getContext());
  return {wide, wide};
}

static Type getFormat(DotFormats formats, Value operand) {
  return isGradient(getDotOperandRoot(operand)) ? formats.gradient
                                                : formats.forward;
}

static StringRef describeRole(DotRole role, bool hasLoss) {
  switch (role) {
  case DotRole::Linear:
    return "a linear layer";
  case DotRole::AttentionQK:
  case DotRole::Product:
    return "two activations";
  case DotRole::AttentionPV:
    return "attention weights times values, or a gradient of this product";
  case DotRole::AttentionDS:
    return "the gradient of scores";
  case DotRole::Head:
    return hasLoss ? "the last linear layer before the loss"
                   : "the last linear layer before a result";
  case DotRole::Embedding:
    return "a one-hot times a table";
  case DotRole::Convolution:
    return "a convolution";
  case DotRole::Router:
    return "chooses experts";
  case DotRole::Optimizer:
    return "a dot of the update";
  }
  return "";
}

/// Returns the accumulation of the dot's phase, the default of later stages.
static Accumulation getPhaseAccumulation(Operation *dot) {
  return getPhase(dot) == Phase::Forward ? Accumulation::Fast
                                         : Accumulation::Precise;
}

/// Returns how a dot is summed: if it repeats the forward in the backward, like
/// the gradient of an input; in the update, by its phase.
static Accumulation chooseSums(Operation *dot, std::optional<DotKind> kind,
                               DotSums sums) {
  if (!kind)
    return getPhaseAccumulation(dot);
  if (kind == DotKind::Forward && getPhase(dot) != Phase::Forward)
    kind = DotKind::InputGrad;
  return sums.kinds[static_cast<unsigned>(*kind)];
}

DotRole DotFormatChooser::findRole(Operation *dot) const {
  if (auto plain = dot->getAttrOfType<DotRoleAttr>(kDotRoleAttr))
    return plain.getValue();
  return roles.lookup(dot);
}

DotFormatChooser::Choice
DotFormatChooser::choose(Operation *dot, ExceptionPatterns &exceptions) const {
  DotRole role = findRole(dot);
  std::optional<DotKind> kind = layers.getKind(dot);
  ExceptionPatterns::Match match =
      exceptions.match(dot, layers.getWeight(dot), kind);
  Accumulation sums = match.accumulation
                          ? *match.accumulation->accumulation
                          : chooseSums(dot, kind, recipe.getSums());
  if (match.formats)
    return {recipe.resolve(match.formats->formats),
            "name",
            "where \"" + match.formats->pattern.str() + "\"",
            role,
            "",
            sums};
  DotFormats formats = recipe.getFormats(role);
  StringRef part = stringifyDotRole(role);
  if (kind && !formats.isWide()) {
    DotFormats own = recipe.getFormats(*kind);
    if (own != DotFormats()) {
      formats = recipe.resolve(own);
      part = stringifyDotKind(*kind);
    }
  }
  return {formats, part.str(), part.str(), role, "", sums};
}

AccumulationAttr DotFormatChooser::getAccumulation(Operation *dot) const {
  Accumulation chosen = choices.find(dot)->second.accumulation;
  if (!isFloat8(dot) || chosen == getPhaseAccumulation(dot))
    return {};
  return AccumulationAttr::get(dot->getContext(), chosen);
}

bool DotFormatChooser::isFloat8(Operation *dot) const {
  return llvm::all_of(dot->getOperands().take_front(2), [&](Value operand) {
    Type format = getOperandFormat(dot, operand);
    return isa<FloatType>(format) && format.getIntOrFloatBitWidth() == 8;
  });
}

void DotFormatChooser::replaceFormats(Operation *dot, DotFormats formats,
                                      StringRef reason,
                                      const std::string &why) {
  Choice &choice = choices[dot];
  choice.formats = recipe.resolve(formats);
  choice.part =
      reason == kSensitiveWidePart ? kSensitivePart.str() : reason.str();
  choice.reason = reason.str();
  choice.judgement = why;
}

/// Does not judge exceptions by name, which are the user's choice.
void DotFormatChooser::judgeCost(FunctionOpInterface func) {
  DotFormats others = recipe.getUnprofitable();
  if (others == DotFormats())
    return;
  SmallVector<stablehlo::DotGeneralOp> dots;
  DenseMap<Value, unsigned> readers;
  func.getFunctionBody().walk([&](stablehlo::DotGeneralOp dot) {
    if (!isFloat8(dot))
      return;
    for (Value operand : dot->getOperands())
      ++readers[getOrigin(operand)];
    if (choices[dot].reason != "name")
      dots.push_back(dot);
  });
  for (stablehlo::DotGeneralOp dot : dots) {
    SmallVector<CastCost> casts;
    for (Value operand : dot->getOperands())
      casts.push_back(
          {cast<RankedTensorType>(operand.getType()).getNumElements(),
           readers[getOrigin(operand)], getStepArgument(operand) != nullptr});
    DotCost cost = estimateCost(dot, recipe.getScales(), casts);
    if (cost.isProfitable())
      continue;
    replaceFormats(dot, others, "unprofitable", cost.describe());
  }
}

static RoundedDot::Turn getTurn(DotRole role, std::optional<DotKind> kind) {
  bool isFirst = role == DotRole::Linear || role == DotRole::Head ||
                 role == DotRole::Convolution || role == DotRole::AttentionQK ||
                 role == DotRole::AttentionPV;
  return isFirst && kind == DotKind::Forward ? RoundedDot::First
                                             : RoundedDot::Second;
}

/// Returns the noise of a dot in these formats; 0 if they keep it wide.
double DotFormatChooser::countNoise(Operation *dot, DotFormats formats) const {
  double noise = 0;
  for (Value operand : dot->getOperands().take_front(2)) {
    auto format = cast<FloatType>(getFormat(formats, operand));
    if (format.isF32())
      return 0;
    noise += getRoundingNoise(format);
  }
  return noise;
}

/// Every rounded dot adds noise, and may be left wide for it, unless the recipe
/// names it: that is the user's choice.
void DotFormatChooser::judgeNoise(FunctionOpInterface func) {
  if (recipe.getSensitive() == DotFormats() || !recipe.castsDots())
    return;
  DotFormats others = recipe.resolve(recipe.getSensitive());
  llvm::MapVector<Operation *, RoundedDot> rounded;
  SmallVector<Operation *> scores;
  func.getFunctionBody().walk([&](Operation *dot) {
    if (!isContraction(dot))
      return;
    const Choice &choice = choices[dot];
    if (choice.role == DotRole::AttentionQK &&
        layers.getKind(dot) == DotKind::Forward)
      scores.push_back(dot);
    if (getReasonToStayWide(dot))
      return;
    rounded[dot] = {countNoise(dot, choice.formats), countNoise(dot, others),
                    choice.reason == "name"
                        ? RoundedDot::Never
                        : getTurn(choice.role, layers.getKind(dot)),
                    layers.getKind(dot) == DotKind::WeightGrad};
  });
  for (auto &[dot, sensitive] : findSensitiveDots(func, rounded, scores, noise))
    replaceFormats(dot, sensitive.isWide ? getWide(func) : others,
                   sensitive.isWide ? kSensitiveWidePart : kSensitivePart,
                   sensitive.why);
}

/// Applies the decisions that were made on the step's plain form.
void DotFormatChooser::applyPlainDecisions(FunctionOpInterface func) {
  func.getFunctionBody().walk([&](Operation *dot) {
    auto decision = dot->getAttrOfType<DecisionAttr>(kPlainDecisionAttr);
    if (!decision || choices[dot].reason == "name")
      return;
    DotFormats formats =
        decision.getPart() == kSensitivePart       ? recipe.getSensitive()
        : decision.getPart() == kSensitiveWidePart ? getWide(func)
                                                   : recipe.getUnprofitable();
    replaceFormats(dot, formats, decision.getPart(),
                   decision.getReason().str());
  });
}

DotFormatChooser::DotFormatChooser(RecipeAttr recipe, FunctionOpInterface func,
                                   ExceptionPatterns &exceptions,
                                   const NoiseOptions &noise)
    : recipe(recipe), noise(noise), roles(func), layers(func, roles),
      moments(findMoments(func)), afterSolvers(findDotsAfterSolvers(func)) {
  func.getFunctionBody().walk([&](Operation *op) {
    if (isContraction(op))
      choices[op] = choose(op, exceptions);
  });
  if (func->hasAttr(kPlainFormAttr)) {
    applyPlainDecisions(func);
    return;
  }
  judgeCost(func);
  judgeNoise(func);
}

DecisionAttr DotFormatChooser::getJudgement(Operation *dot) const {
  const Choice &choice = choices.find(dot)->second;
  if (choice.judgement.empty())
    return {};
  return DecisionAttr::get(dot->getContext(), choice.reason, choice.judgement);
}

Type DotFormatChooser::getOperandFormat(Operation *dot, Value operand) const {
  return getFormat(choices.find(dot)->second.formats, operand);
}

static bool isOneNumber(Type type) {
  return mlir::cast<ShapedType>(type).getNumElements() == 1;
}

/// True for factors and squared norms. They do the work of an elementwise op or
/// a reduction, and a cast costs as much. A factor may be smaller than any
/// number of the format.
static bool hasScalar(Operation *dot) {
  return isa<stablehlo::DotGeneralOp>(dot) &&
         (llvm::any_of(dot->getOperandTypes(), isOneNumber) ||
          isOneNumber(dot->getResult(0).getType()));
}

DecisionAttr DotFormatChooser::getReasonToStayWide(Operation *dot) const {
  const Choice &choice = choices.find(dot)->second;
  auto because = [&](StringRef part, const Twine &reason) {
    return DecisionAttr::get(dot->getContext(), part, reason.str());
  };
  if (hasScalar(dot))
    return because("shape", "an operand or the result is one number");
  if (moments.contains(dot) && choice.reason != "name")
    return because("moment", "a mean of a variance, the difference of the mean "
                             "of squares and the square of the mean, which may "
                             "be negative once they are rounded");
  if (afterSolvers.contains(dot) && choice.reason != "name")
    return because("solver", "in a loop that solves systems or calls a "
                             "library, after it: terms may cancel, and the "
                             "next solution multiplies their error by a "
                             "condition number");
  for (Value operand : dot->getOperands().take_front(2)) {
    Type type = getElementTypeOrSelf(operand.getType());
    if (isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8)
      return because("given", "the program itself casts its operands to FP8");
    if (!type.isF32() && !type.isF16() && !type.isBF16()) {
      std::string text;
      llvm::raw_string_ostream(text) << "an operand is " << type;
      return because("type", text);
    }
    if (!getOperandFormat(dot, operand).isF32())
      continue;
    std::string what =
        choice.judgement.empty()
            ? describeRole(choice.role, roles.hasBackward()).str()
            : choice.judgement;
    if (choice.reason == kSensitiveWidePart)
      return because(choice.reason,
                     what + ", and the formats of 'sensitive' do not suffice");
    return because(
        choice.reason,
        what + " (recipe: " + choice.part +
            (choice.formats.isWide() ? " = false)" : " has an f32 operand)"));
  }
  return {};
}
