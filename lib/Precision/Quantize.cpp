//===- Quantize.cpp - Cast the operands of dots, saved values and state ---===//
//
// Makes the casts that scalify-decide-formats has decided, and those of saved
// values, state, stacks, partial products and gradients. All of them are in one
// pass, since they share the Caster's memory: a value has one cast per format
// whoever reads it, its moves are replayed once, and numbers name the casts.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/StableHLO/Edits.h"
#include "scalify/Precision/Passes.h"

#include "DotDecisions.h"
#include "PlainForm.h"
#include "StorageFormats.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Precision/Recompute.h"
#include "scalify/Scaling/RangeProofs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {
#define GEN_PASS_DEF_QUANTIZEDOTS
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// Casts the operands of the dots that do not stay wide. Casts are numbered
/// before any is made, and with those that are left out, as
/// scalify-decide-formats does.
static void castOperands(func::FuncOp func, Caster &caster) {
  SmallVector<Operation *> dots;
  func.walk([&](Operation *op) {
    if (op->hasAttr(kFormatsAttr))
      dots.push_back(op);
  });
  auto forEachCast = [](Operation *dot, auto apply) {
    auto formats = dot->getAttrOfType<FormatsAttr>(kFormatsAttr);
    for (unsigned i : {0, 1})
      apply(dot->getOpOperand(i),
            dot->getOperand(i).getDefiningOp<ScaleHintOp>(),
            formats.getFormat(i), formats.getBlock(i));
  };
  for (Operation *dot : dots)
    forEachCast(dot, [&](OpOperand &, ScaleHintOp hint, FloatType format,
                         DenseI64ArrayAttr block) {
      caster.getReasonToStayWide(hint.getValue(), format, {{}, {}, block});
    });
  for (Operation *dot : dots)
    if (!dot->hasAttr(kWideAttr))
      forEachCast(dot, [&](OpOperand &operand, ScaleHintOp hint,
                           FloatType format, DenseI64ArrayAttr block) {
        operand.set(caster.castOperand(hint, format, block));
        moveProof(hint, operand.get());
      });
}

namespace {
struct QuantizeDotsPass : scalify::impl::QuantizeDotsBase<QuantizeDotsPass> {
  using QuantizeDotsBase::QuantizeDotsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    RecipeAttr recipe = RecipeAttr::of(module);
    WideCasts wideCasts(module);
    bool hasFailed = false;
    for (auto func : module.getOps<func::FuncOp>())
      if (!func.isExternal())
        hasFailed |= failed(checkDecided(func, recipe)) ||
                     failed(quantize(func, recipe, wideCasts));
    if (hasFailed || failed(wideCasts.checkAllMet(module)))
      signalPassFailure();
  }

  static LogicalResult checkDecided(func::FuncOp func, RecipeAttr recipe) {
    WalkResult result = func.walk([&](Operation *op) -> WalkResult {
      auto isHint = [](Value operand) {
        return operand.getDefiningOp<ScaleHintOp>() != nullptr;
      };
      if (op->hasAttr(kFormatsAttr) &&
          !llvm::all_of(op->getOperands().take_front(2), isHint))
        return op->emitOpError("has formats, but operands without a scale: "
                               "run scalify-propagate first");
      if (!recipe.castsDots() || !stablehlo::isContraction(op) ||
          op->hasAttr(kDotRoleAttr))
        return WalkResult::advance();
      return op->emitOpError("has no role: run scalify-decide-formats first");
    });
    return failure(result.wasInterrupted());
  }

  LogicalResult quantize(func::FuncOp func, RecipeAttr recipe,
                         WideCasts &wideCasts) {
    Block &body = func.getBody().front();
    CastNames names(wideCasts);
    Caster caster(recipe, body, names, strict, measureUnproved);
    applyPlainScales(func, caster);
    castOperands(func, caster);
    func.walk([](ScaleHintOp hint) {
      hint.replaceAllUsesWith(hint.getValue());
      hint.erase();
    });
    // Moves of wide data that narrow clones replaced are dead now, and must not
    // count as uses of saved values.
    stablehlo::eraseDeadOps(body, /*inControlFlow=*/true);
    caster.forgetMoves();
    if (recompute) {
      numRecomputed += recomputeForBackward(func, recipe.getStorage().saved);
      stablehlo::eraseDeadOps(body, /*inControlFlow=*/true);
    }
    if (recipe.castsDots()) {
      castSavedValues(func, recipe, caster);
      castState(func, recipe, caster, roundingKey);
    }
    stablehlo::eraseDeadOps(body, /*inControlFlow=*/true);
    numNarrowStacks += narrowStacks(func, recipe, caster);
    stablehlo::eraseDeadOps(body, /*inControlFlow=*/true);
    castPartialProducts(func, recipe, caster);
    LogicalResult result = castGradients(func, recipe, caster, strict);
    stablehlo::eraseDeadOps(body, /*inControlFlow=*/true);
    func.walk([&](Operation *op) {
      numCasts += isa<QuantizeOp>(op);
      for (StringRef name : {StringRef(kDotRoleAttr), StringRef(kFormatsAttr),
                             StringRef(kWholeStackAttr)})
        op->removeAttr(name);
    });
    return failure(failed(result) || caster.hasFailed());
  }
};
} // namespace
