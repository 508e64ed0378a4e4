//===- Quantize.cpp - Cast the operands of dots, saved values and state ---===//

#include "scalify/Precision/Passes.h"

#include "BlockSizes.h"
#include "Caster.h"
#include "DotFormats.h"
#include "LargeConstants.h"
#include "PlainForm.h"
#include "StorageFormats.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Precision/Recompute.h"
#include "scalify/Scaling/RangeProofs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/StringExtras.h"

namespace scalify {
#define GEN_PASS_DEF_QUANTIZEDOTS
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// Scales beyond 2^63 are not credible: squares of such values, in an optimizer
/// or in a product of two, overflow F32.
static constexpr int64_t kMaxExponent = 63;

static bool isInUnboundedLoop(Operation *op) {
  while ((op = op->getParentOp()))
    if (auto loop = dyn_cast<stablehlo::WhileOp>(op);
        loop && !stablehlo::getTripCount(loop))
      return true;
  return false;
}

namespace {
struct QuantizeDotsPass : scalify::impl::QuantizeDotsBase<QuantizeDotsPass> {
  using QuantizeDotsBase::QuantizeDotsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (rangeUse != "report" && rangeUse != "choose") {
      module.emitError("unknown use of ranges '")
          << rangeUse << "': expected report or choose";
      return signalPassFailure();
    }
    if (!recipe.empty()) {
      RecipeAttr preset = RecipeAttr::getPreset(&getContext(), recipe);
      if (!preset) {
        module.emitError("unknown recipe '")
            << recipe << "': expected one of "
            << llvm::join(RecipeAttr::getPresetNames(), ", ");
        return signalPassFailure();
      }
      module->setAttr(kRecipeAttr, preset);
    }
    RecipeAttr attr = RecipeAttr::of(module);
    WideCasts wideCasts(module);
    ExceptionPatterns exceptions(attr);
    bool hasFailed = false;
    for (auto func : module.getOps<func::FuncOp>())
      if (!func.isExternal())
        hasFailed |= failed(quantize(func, attr, wideCasts, exceptions));
    hasFailed |= attr.castsDots() &&
                 failed(exceptions.checkAllMet(module, strict, remarks));
    if (hasFailed || failed(wideCasts.checkAllMet(module)))
      signalPassFailure();
  }

  LogicalResult quantize(func::FuncOp func, RecipeAttr recipe,
                         WideCasts &wideCasts, ExceptionPatterns &exceptions) {
    SmallVector<Operation *> dots;
    func.walk([&](Operation *op) {
      if (isContraction(op) &&
          isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
        dots.push_back(op);
    });
    DotFormatChooser formats(recipe, func, exceptions);
    Caster caster(recipe, func.getBody().front(), wideCasts, strict,
                  measureUnproved);
    applyPlainScales(func, caster);
    bool isPropagated = recipe.getScales() == ScaleSource::Propagated;
    bool usesRanges = rangeUse == "choose" && isPropagated;
    auto getFormat = [&](Operation *dot, Value operand) {
      Type format = formats.getOperandFormat(dot, operand);
      return usesRanges ? chooseFormat(operand.getDefiningOp<ScaleHintOp>(),
                                       cast<FloatType>(format))
                        : format;
    };
    auto getBlock = [&](Operation *dot, OpOperand &operand) {
      if (getFormat(dot, operand.get()).isBF16())
        return DenseI64ArrayAttr();
      return getBlockSizes(
          dot, operand.getOperandNumber(),
          operand.get().getDefiningOp<ScaleHintOp>().getValue(), recipe);
    };
    SmallVector<ScaleHintOp> hints;
    for (Operation *dot : dots)
      if (!getReasonToStayWide(dot, formats, recipe))
        for (Value operand : dot->getOperands().take_front(2))
          hints.push_back(operand.getDefiningOp<ScaleHintOp>());
    caster.findStacks(hints);
    bool failedStrict = false;
    for (Operation *dot : dots) {
      DecisionAttr decision = getReasonToStayWide(dot, formats, recipe);
      if (!decision && strict && usesRanges)
        decision = getReasonUnproved(dot, formats);
      if (!decision)
        for (OpOperand &operand : dot->getOpOperands().take_front(2)) {
          // Both operands' casts get numbers, whichever is left out.
          auto hint = operand.get().getDefiningOp<ScaleHintOp>();
          auto format = cast<FloatType>(getFormat(dot, operand.get()));
          DecisionAttr found = caster.getReasonToStayWide(
              hint.getValue(), format, {{}, {}, getBlock(dot, operand)});
          if (!found && isPropagated)
            found = describeLargeConstant(hint, format);
          if (!decision)
            decision = found;
        }
      if (!decision) {
        bool isByBlocks = false;
        for (OpOperand &operand : dot->getOpOperands().take_front(2)) {
          auto hint = operand.get().getDefiningOp<ScaleHintOp>();
          Type format = getFormat(dot, operand.get());
          DenseI64ArrayAttr block = getBlock(dot, operand);
          isByBlocks |= block != nullptr;
          operand.set(caster.castOperand(hint, format, block));
          moveProof(hint, operand.get());
        }
        ++numNarrowDots;
        AccumulationAttr sums = formats.getAccumulation(dot);
        if (sums)
          dot->setAttr(kAccumulationAttr, sums);
        if (strict && isByBlocks && sums &&
            sums.getValue() == Accumulation::Fast)
          failedStrict |= failed(dot->emitOpError(
              "cannot be summed 'fast' as a strict recipe's accumulation says: "
              "products by blocks have no other sum than the precise one"));
        reportJudgement(dot, formats.getJudgement(dot));
      } else {
        failedStrict |= failed(keepWide(dot, decision, recipe));
      }
    }
    func.walk([](ScaleHintOp hint) {
      hint.replaceAllUsesWith(hint.getValue());
      hint.erase();
    });
    // Moves of wide data that narrow clones replaced are dead now, and must not
    // count as uses of saved values.
    eraseDeadOps(func.getBody().front());
    caster.forgetMoves();
    if (recompute) {
      numRecomputed += recomputeForBackward(func, recipe.getStorage().saved);
      eraseDeadOps(func.getBody().front());
    }
    if (recipe.castsDots()) {
      castSavedValues(func, recipe, caster);
      castState(func, recipe, caster, roundingKey);
    }
    eraseDeadOps(func.getBody().front());
    numNarrowStacks += narrowStacks(func, recipe, caster);
    eraseDeadOps(func.getBody().front());
    castPartialProducts(func, recipe, formats, caster);
    failedStrict |=
        failed(castGradients(func, recipe, formats, caster, strict));
    eraseDeadOps(func.getBody().front());
    func.walk([&](QuantizeOp) { ++numCasts; });
    return failure(failedStrict || caster.hasFailed());
  }

  static void eraseDeadOps(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
      if (isOpTriviallyDead(&op))
        op.erase();
      else if (stablehlo::isControlFlow(&op))
        for (Region &region : op.getRegions())
          eraseDeadOps(region.front());
    }
  }

  /// Returns why an operand is not proved to fit; null if all are. Gradients
  /// need no proof.
  static DecisionAttr getReasonUnproved(Operation *dot,
                                        const DotFormatChooser &formats) {
    for (Value operand : dot->getOperands().take_front(2)) {
      if (isGradient(getDotOperandRoot(operand)))
        continue;
      Type format = formats.getOperandFormat(dot, operand);
      std::string reason = scalify::getReasonUnproved(
          operand.getDefiningOp<ScaleHintOp>(), cast<FloatType>(format));
      if (!reason.empty())
        return DecisionAttr::get(dot->getContext(), "range", reason);
    }
    return {};
  }

  /// Returns null if the dot is cast.
  DecisionAttr getReasonToStayWide(Operation *dot,
                                   const DotFormatChooser &formats,
                                   RecipeAttr recipe) {
    auto because = [&](StringRef part, const Twine &reason) {
      return DecisionAttr::get(dot->getContext(), part, reason.str());
    };
    if (!recipe.castsDots())
      return because("recipe", "casts nothing");
    if (!stablehlo::isProgramCode(dot))
      return because("body", "inside of '" +
                                 dot->getParentOp()->getName().getStringRef() +
                                 "', whose body computes single elements");
    if (DecisionAttr decision = formats.getReasonToStayWide(dot))
      return decision;
    bool isPropagated = recipe.getScales() == ScaleSource::Propagated ||
                        recipe.getScales() == ScaleSource::Delayed;
    if (isPropagated && !countsLoops && isInUnboundedLoop(dot))
      return because("loop", "in a loop of unknown length, whose casts are not "
                             "counted (scales = current measures them)");
    for (Value operand : dot->getOperands().take_front(2)) {
      auto hint = operand.getDefiningOp<ScaleHintOp>();
      if (!hint)
        return because("scale", "an operand has none (run scalify-propagate "
                                "first)");
      auto exponent = getScaleExponent(hint.getScale());
      if (isPropagated && exponent && *exponent > kMaxExponent)
        return because("scale",
                       "an operand's is 2^" + Twine(*exponent) +
                           ", whose square F32 cannot hold (declare the scales "
                           "of arguments, as scalify.measure gives them, or "
                           "measure the value by scalify.lax.rescale)");
    }
    return {};
  }

  void reportJudgement(Operation *dot, DecisionAttr judgement) {
    if (!judgement)
      return;
    dot->setAttr(kJudgementAttr, judgement);
    if (remarks)
      dot->emitRemark("dot is not made FP8: ") << judgement.describe();
  }

  LogicalResult keepWide(Operation *dot, DecisionAttr decision,
                         RecipeAttr recipe) {
    ++numWideDots;
    if (!recipe.castsDots())
      return success();
    dot->setAttr(kWideAttr, decision);
    if (strict && !decision.isChoice())
      return dot->emitOpError("stays wide under a strict recipe: ")
             << decision.describe();
    if (remarks)
      dot->emitRemark("dot stays wide: ") << decision.describe();
    return success();
  }
};
} // namespace
