//===- JudgePlainForm.cpp - Decide formats on the plain form --------------===//

#include "DotDecisions.h"
#include "DotFormats.h"
#include "Places.h"
#include "PlainForm.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/StageBorders.h"
#include "scalify/Import/Folds.h"
#include "scalify/Import/Unroller.h"
#include "scalify/Precision/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/StringMap.h"

namespace scalify {
#define GEN_PASS_DEF_JUDGEPLAINFORM
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
/// The findings on dots that are decided together.
struct Judgement {
  std::optional<DotRole> role;
  DecisionAttr decision;
  SmallVector<int32_t> exponents;
};

/// A clone of a step that is rewritten to its plain form. Each dot carries the
/// number of its original.
class PlainForm : RewriterBase::Listener {
public:
  explicit PlainForm(ModuleOp module);

  LogicalResult make(ArrayRef<OpPassManager> scaling);
  void judge(RecipeAttr recipe, const NoiseOptions &noise);
  void markOriginal() const;

private:
  void mergeRecomputation();
  void notifyOperationReplaced(Operation *op, ValueRange values) override;

  SmallVector<Operation *> original;
  llvm::IntEqClasses classes;
  OwningOpRef<ModuleOp> copy;
  func::FuncOp main;
  std::vector<Judgement> found;
};
} // namespace

static SmallVector<Operation *> collectDots(func::FuncOp main) {
  SmallVector<Operation *> dots;
  main.walk([&](Operation *op) {
    if (isContraction(op))
      dots.push_back(op);
  });
  return dots;
}

/// Returns the number of a dot in the clone. It is in the location, which
/// unrolling copies and CSE ignores.
static std::optional<unsigned> getNumber(Operation *op) {
  auto fused = dyn_cast<FusedLoc>(op->getLoc());
  auto number = fused ? dyn_cast_or_null<IntegerAttr>(fused.getMetadata())
                      : IntegerAttr();
  if (!number || !isContraction(op))
    return std::nullopt;
  return static_cast<unsigned>(number.getInt());
}

/// Dots at one place are decided together from the start.
PlainForm::PlainForm(ModuleOp module)
    : original(collectDots(module.lookupSymbol<func::FuncOp>("main"))),
      classes(original.size()), copy(module.clone()),
      main(copy->lookupSymbol<func::FuncOp>("main")) {
  llvm::StringMap<unsigned> firstOfPlace;
  Builder builder(module.getContext());
  for (auto [i, dot] : llvm::enumerate(collectDots(main))) {
    if (std::string place = getDotPlace(dot); !place.empty())
      classes.join(firstOfPlace.try_emplace(place, i).first->second, i);
    dot->setLoc(FusedLoc::get({dot->getLoc()}, builder.getIndexAttr(i),
                              module.getContext()));
  }
}

void PlainForm::notifyOperationReplaced(Operation *op, ValueRange values) {
  std::optional<unsigned> number = getNumber(op);
  Operation *by = values.empty() ? nullptr : values.front().getDefiningOp();
  if (!number || !by)
    return;
  if (std::optional<unsigned> other = getNumber(by))
    classes.join(*number, *other);
}

/// Removes what keeps a checkpoint's rematerialisation from being merged with
/// the original: the barrier before it, and its backward phase.
void PlainForm::mergeRecomputation() {
  main.walk([](Operation *op) {
    op->removeAttr(kPhaseAttr);
    if (!stablehlo::isPlainBarrier(op))
      return;
    op->replaceAllUsesWith(op->getOperands());
    op->erase();
  });
}

LogicalResult PlainForm::make(ArrayRef<OpPassManager> scaling) {
  UnrollOptions unroll;
  unroll.partly = true;
  mergeRecomputation();
  import::FoldOptions folds{/*maxElements=*/1024, /*signedZeros=*/true};
  if (failed(unrollLoops(main.getBody().front(), unroll)) ||
      failed(import::foldAndMerge(
          main, import::getFolds(copy->getContext(), folds), this)))
    return failure();
  classes.compress();
  for (const OpPassManager &pipeline : scaling) {
    PassManager manager(copy->getContext());
    static_cast<OpPassManager &>(manager) = pipeline;
    if (failed(manager.run(*copy)))
      return failure();
  }
  return success();
}

static std::optional<int64_t> getHintExponent(Value operand) {
  auto hint = operand.getDefiningOp<ScaleHintOp>();
  if (!hint)
    return std::nullopt;
  return getScaleExponent(hint.getScale());
}

/// Adds the findings on a dot. If one dot of a class stays wide, all do; the
/// first role counts, and the largest scales.
static void add(Judgement &found, Operation *dot,
                const DotFormatChooser &formats) {
  if (!found.role)
    found.role = formats.getRole(dot);
  if (!found.decision)
    found.decision = formats.getJudgement(dot);
  SmallVector<int32_t> exponents;
  for (Value operand : dot->getOperands().take_front(2)) {
    std::optional<int64_t> exponent = getHintExponent(operand);
    if (!exponent)
      return;
    exponents.push_back(static_cast<int32_t>(*exponent));
  }
  if (found.exponents.empty())
    found.exponents = exponents;
  for (auto [largest, own] : llvm::zip_equal(found.exponents, exponents))
    largest = std::max(largest, own);
}

void PlainForm::judge(RecipeAttr recipe, const NoiseOptions &noise) {
  ExceptionPatterns exceptions(recipe);
  DotFormatChooser formats(recipe, main, exceptions, noise);
  found.resize(classes.getNumClasses());
  for (Operation *dot : collectDots(main))
    if (std::optional<unsigned> number = getNumber(dot))
      add(found[classes[*number]], dot, formats);
}

void PlainForm::markOriginal() const {
  for (auto [i, dot] : llvm::enumerate(original)) {
    const Judgement &own = found[classes[i]];
    Builder builder(dot->getContext());
    dot->setAttr(kPlainClassAttr, builder.getI64IntegerAttr(classes[i]));
    if (own.role)
      dot->setAttr(kDotRoleAttr,
                   DotRoleAttr::get(dot->getContext(), *own.role));
    if (!own.exponents.empty())
      dot->setAttr(kPlainScalesAttr,
                   builder.getDenseI32ArrayAttr(own.exponents));
    if (own.decision)
      dot->setAttr(kPlainDecisionAttr, own.decision);
  }
}

namespace {
struct JudgePlainFormPass
    : scalify::impl::JudgePlainFormBase<JudgePlainFormPass> {
  using JudgePlainFormBase::JudgePlainFormBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    RecipeAttr recipe = RecipeAttr::of(module);
    auto main = module.lookupSymbol<func::FuncOp>("main");
    if (recipe.getScales() != ScaleSource::Delayed || !main ||
        main.isExternal() || !main.getBody().hasOneBlock())
      return;
    PlainForm plain(module);
    std::string reason;
    {
      // The passes on the step itself report its errors.
      ScopedDiagnosticHandler quiet(&getContext(), [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          reason = diagnostic.str();
        return success();
      });
      if (succeeded(plain.make(scaling))) {
        plain.judge(recipe, {stays, noiseExponent});
        plain.markOriginal();
        main->setAttr(kPlainFormAttr, UnitAttr::get(&getContext()));
        return;
      }
    }
    main.emitRemark("scales and formats may depend on how the step is written "
                    "(loops, checkpoints): its plain form cannot be built: ")
        << reason;
  }
};
} // namespace
