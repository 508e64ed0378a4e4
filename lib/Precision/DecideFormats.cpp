//===- DecideFormats.cpp - Decide the role and the formats of dots --------===//
//
// A dot takes the formats that DotFormatChooser finds in the recipe, unless a
// property of the program or a cast that clipped in an earlier run keeps it
// wide.
//
//===----------------------------------------------------------------------===//

#include "scalify/Precision/DecidedFormats.h"
#include "scalify/Precision/Passes.h"

#include "BlockSizes.h"
#include "CastNames.h"
#include "DotDecisions.h"
#include "DotFormats.h"
#include "LargeConstants.h"
#include "PlainForm.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Scaling/RangeProofs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace scalify {
#define GEN_PASS_DEF_DECIDEFORMATS
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// Larger scales are not credible: squares of such values, in an optimizer or
/// in a product of two, overflow F32.
static int64_t getMaxExponent() {
  return llvm::APFloat::semanticsMaxExponent(llvm::APFloat::IEEEsingle()) / 2;
}

static bool isInUnboundedLoop(Operation *op) {
  while ((op = op->getParentOp()))
    if (auto loop = dyn_cast<stablehlo::WhileOp>(op);
        loop && !stablehlo::getTripCount(loop))
      return true;
  return false;
}

static ScaleHintOp getHint(Operation *dot, unsigned operand) {
  return dot->getOperand(operand).getDefiningOp<ScaleHintOp>();
}

namespace {
struct DecideFormatsPass : scalify::impl::DecideFormatsBase<DecideFormatsPass> {
  using DecideFormatsBase::DecideFormatsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (rangeUse != "report" && rangeUse != "choose") {
      module.emitError("unknown use of ranges '")
          << rangeUse << "': expected report or choose";
      return signalPassFailure();
    }
    if (!preset.empty()) {
      RecipeAttr attr = RecipeAttr::getPreset(&getContext(), preset);
      if (!attr) {
        module.emitError("unknown recipe '")
            << preset << "': expected one of "
            << llvm::join(RecipeAttr::getPresetNames(), ", ");
        return signalPassFailure();
      }
      module->setAttr(kRecipeAttr, attr);
    }
    recipe = RecipeAttr::of(module);
    isPropagated = recipe.getScales() == ScaleSource::Propagated;
    usesRanges = rangeUse == "choose" && isPropagated;
    WideCasts wideCasts(module);
    ExceptionPatterns exceptions(recipe);
    bool hasFailed = false;
    for (auto func : module.getOps<func::FuncOp>())
      if (!func.isExternal())
        hasFailed |= failed(decide(func, wideCasts, exceptions));
    hasFailed |= recipe.castsDots() &&
                 failed(exceptions.checkAllMet(module, strict, remarks));
    if (hasFailed)
      signalPassFailure();
  }

private:
  LogicalResult decide(func::FuncOp func, WideCasts &wideCasts,
                       ExceptionPatterns &exceptions);
  DecisionAttr getReasonAgainstFormats(Operation *dot,
                                       const DotFormatChooser &chooser) const;
  FormatsAttr chooseFormats(Operation *dot,
                            const DotFormatChooser &chooser) const;
  bool castsWholeStacks() const;
  static DecisionAttr getReasonUnproved(Operation *dot,
                                        const DotFormatChooser &chooser);
  DecisionAttr getReasonAgainstCasts(Operation *dot, CastNames &names) const;
  LogicalResult keepWide(Operation *dot, DecisionAttr decision);
  LogicalResult makeNarrow(Operation *dot, const DotFormatChooser &chooser);

  RecipeAttr recipe;
  bool isPropagated = false, usesRanges = false;
};
} // namespace

static bool hasFloatResult(Operation *dot) {
  return isa<FloatType>(getElementTypeOrSelf(dot->getResult(0).getType()));
}

/// Writes the role, the kind and the weight of each dot. Returns the dots on
/// floats.
static SmallVector<Operation *> writeRoles(func::FuncOp func,
                                           const DotFormatChooser &chooser) {
  SmallVector<Operation *> dots;
  func.walk([&](Operation *op) {
    if (!isContraction(op))
      return;
    MLIRContext *context = op->getContext();
    op->setAttr(kDotRoleAttr, DotRoleAttr::get(context, chooser.getRole(op)));
    if (std::optional<DotKind> kind = chooser.getKind(op)) {
      op->setAttr(kDotKindAttr, DotKindAttr::get(context, *kind));
      if (Value weight = chooser.getWeight(op))
        op->setAttr(kDotWeightAttr,
                    StringAttr::get(
                        context, getArgumentName(cast<BlockArgument>(weight))));
    }
    if (hasFloatResult(op))
      dots.push_back(op);
  });
  return dots;
}

std::vector<std::string> scalify::listDecidedFormats(ModuleOp module) {
  std::vector<std::string> found;
  module.walk([&](Operation *op) {
    if (!isContraction(op) || !hasFloatResult(op))
      return;
    auto formats = op->getAttrOfType<FormatsAttr>(kFormatsAttr);
    bool isCast = formats && !op->hasAttr(kWideAttr);
    auto getType = [&](unsigned i) -> Type {
      return isCast ? formats.getFormat(i)
                    : getElementTypeOrSelf(op->getOperand(i).getType());
    };
    llvm::raw_string_ostream(found.emplace_back())
        << getType(0) << " x " << getType(1);
  });
  return found;
}

LogicalResult DecideFormatsPass::decide(func::FuncOp func, WideCasts &wideCasts,
                                        ExceptionPatterns &exceptions) {
  DotFormatChooser chooser(recipe, func, exceptions, {stays, noiseExponent});
  SmallVector<Operation *> dots = writeRoles(func, chooser);
  if (!recipe.castsDots()) {
    numWideDots += dots.size();
    return success();
  }
  SmallVector<Operation *> withFormats;
  for (Operation *dot : dots) {
    if (DecisionAttr decision = getReasonAgainstFormats(dot, chooser)) {
      dot->setAttr(kWideAttr, decision);
      continue;
    }
    dot->setAttr(kFormatsAttr, chooseFormats(dot, chooser));
    withFormats.push_back(dot);
  }
  if (castsWholeStacks())
    markWholeStacks(withFormats);
  CastNames names(wideCasts);
  LogicalResult result = success();
  for (Operation *dot : dots) {
    auto decision = dot->getAttrOfType<DecisionAttr>(kWideAttr);
    if (!decision)
      decision = getReasonAgainstCasts(dot, names);
    if (strict && usesRanges && dot->hasAttr(kFormatsAttr))
      if (DecisionAttr unproved = getReasonUnproved(dot, chooser))
        decision = unproved;
    if (failed(decision ? keepWide(dot, decision) : makeNarrow(dot, chooser)))
      result = failure();
  }
  return result;
}

/// Returns why the recipe's formats do not apply to a dot; null if they do.
DecisionAttr DecideFormatsPass::getReasonAgainstFormats(
    Operation *dot, const DotFormatChooser &chooser) const {
  auto because = [&](StringRef part, const Twine &reason) {
    return DecisionAttr::get(dot->getContext(), part, reason.str());
  };
  if (!stablehlo::isProgramCode(dot))
    return because("body", "inside of '" +
                               dot->getParentOp()->getName().getStringRef() +
                               "', whose body computes single elements");
  if (DecisionAttr decision = chooser.getReasonToStayWide(dot))
    return decision;
  bool isPredicted = isPropagated || recipe.getScales() == ScaleSource::Delayed;
  if (isPredicted && !countsLoops && isInUnboundedLoop(dot))
    return because("loop", "in a loop of unknown length, whose casts are not "
                           "counted (scales = current measures them)");
  for (unsigned i : {0, 1}) {
    if (!getHint(dot, i))
      return because("scale", "an operand has none (run scalify-propagate "
                              "first)");
    std::optional<int64_t> exponent = getOperandExponent(dot, i);
    if (isPredicted && exponent && *exponent > getMaxExponent())
      return because("scale",
                     "an operand's is 2^" + Twine(*exponent) +
                         ", whose square F32 cannot hold (declare the scales "
                         "of arguments, as scalify.measure gives them, or "
                         "measure the value by scalify.lax.rescale)");
  }
  return {};
}

FormatsAttr
DecideFormatsPass::chooseFormats(Operation *dot,
                                 const DotFormatChooser &chooser) const {
  auto getFormat = [&](unsigned i) -> FloatType {
    auto format =
        cast<FloatType>(chooser.getOperandFormat(dot, dot->getOperand(i)));
    return usesRanges ? chooseFormat(getHint(dot, i), format) : format;
  };
  auto getBlock = [&](unsigned i) -> DenseI64ArrayAttr {
    if (getFormat(i).isBF16())
      return {};
    return getBlockSizes(dot, i, getHint(dot, i).getValue(), recipe);
  };
  return FormatsAttr::get(dot->getContext(), getFormat(0), getBlock(0),
                          getFormat(1), getBlock(1));
}

/// Measured on the whole stack, all slices would have the largest scale.
bool DecideFormatsPass::castsWholeStacks() const {
  return !(measureUnproved && isPropagated) &&
         recipe.getScales() != ScaleSource::Current &&
         recipe.getScales() != ScaleSource::Block;
}

/// Returns why an operand is not proved to fit; null if all are. Gradients need
/// no proof.
DecisionAttr
DecideFormatsPass::getReasonUnproved(Operation *dot,
                                     const DotFormatChooser &chooser) {
  for (unsigned i : {0, 1}) {
    Value operand = dot->getOperand(i);
    if (isGradient(getDotOperandRoot(operand)))
      continue;
    Type format = chooser.getOperandFormat(dot, operand);
    std::string reason =
        scalify::getReasonUnproved(getHint(dot, i), cast<FloatType>(format));
    if (!reason.empty())
      return DecisionAttr::get(dot->getContext(), "range", reason);
  }
  return {};
}

/// Returns why a cast of an operand is left out; null if both are made. Both
/// casts get numbers, whichever is left out.
DecisionAttr DecideFormatsPass::getReasonAgainstCasts(Operation *dot,
                                                      CastNames &names) const {
  auto formats = dot->getAttrOfType<FormatsAttr>(kFormatsAttr);
  DecisionAttr decision;
  for (unsigned i : {0, 1}) {
    ScaleHintOp hint = getHint(dot, i);
    DenseI64ArrayAttr block = formats.getBlock(i);
    DecisionAttr found = names.getReasonToStayWide(
        hint.getValue(), formats.getFormat(i), block, block);
    if (!found && isPropagated)
      found = describeLargeConstant(hint, formats.getFormat(i));
    if (!decision)
      decision = found;
  }
  return decision;
}

LogicalResult DecideFormatsPass::keepWide(Operation *dot,
                                          DecisionAttr decision) {
  ++numWideDots;
  dot->setAttr(kWideAttr, decision);
  if (strict && !decision.isChoice())
    return dot->emitOpError("stays wide under a strict recipe: ")
           << decision.describe();
  if (remarks)
    dot->emitRemark("dot stays wide: ") << decision.describe();
  return success();
}

/// Writes the accumulation and a model's judgement.
LogicalResult DecideFormatsPass::makeNarrow(Operation *dot,
                                            const DotFormatChooser &chooser) {
  ++numNarrowDots;
  AccumulationAttr sums = chooser.getAccumulation(dot);
  if (sums)
    dot->setAttr(kAccumulationAttr, sums);
  if (DecisionAttr judgement = chooser.getJudgement(dot)) {
    dot->setAttr(kJudgementAttr, judgement);
    if (remarks)
      dot->emitRemark("dot is not made FP8: ") << judgement.describe();
  }
  auto formats = dot->getAttrOfType<FormatsAttr>(kFormatsAttr);
  bool isByBlocks = formats.getLhsBlock() || formats.getRhsBlock();
  if (strict && isByBlocks && sums && sums.getValue() == Accumulation::Fast)
    return dot->emitOpError(
        "cannot be summed 'fast' as a strict recipe's accumulation says: "
        "products by blocks have no other sum than the precise one");
  return success();
}
