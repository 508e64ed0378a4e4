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
#include "scalify/Precision/ValueOrigin.h"
#include "scalify/Scaling/ScaleAnalysis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/SetVector.h"
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
  /// Of the operands: log2 of the scales, and whether they are gradients.
  SmallVector<int32_t> exponents;
  SmallVector<bool> areGradients;
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
  void joinPlaces();
  void notifyOperationReplaced(Operation *op, ValueRange values) override;

  SmallVector<Operation *> original;
  /// The numbers of the dots at each place.
  llvm::StringMap<SmallVector<unsigned>> places;
  /// The dots that are one in the clone, and the classes of those together.
  llvm::IntEqClasses classes, joined;
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

PlainForm::PlainForm(ModuleOp module)
    : original(collectDots(module.lookupSymbol<func::FuncOp>("main"))),
      classes(original.size()), copy(module.clone()),
      main(copy->lookupSymbol<func::FuncOp>("main")) {
  Builder builder(module.getContext());
  for (auto [i, dot] : llvm::enumerate(collectDots(main))) {
    if (std::string place = getDotPlace(dot); !place.empty())
      places[place].push_back(i);
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

/// Joins findings. If one dot of a class stays wide, all do; the first role
/// counts, and the largest scales.
static void join(Judgement &found, const Judgement &other) {
  if (!found.role)
    found.role = other.role;
  if (!found.decision)
    found.decision = other.decision;
  if (other.exponents.empty())
    return;
  if (found.exponents.empty()) {
    found.exponents = other.exponents;
    found.areGradients = other.areGradients;
  }
  for (auto [largest, own] : llvm::zip_equal(found.exponents, other.exponents))
    largest = std::max(largest, own);
  for (auto [all, own] :
       llvm::zip_equal(found.areGradients, other.areGradients))
    all &= own;
}

static Judgement judgeDot(Operation *dot, const DotFormatChooser &formats) {
  Judgement found{formats.getRole(dot), formats.getJudgement(dot), {}, {}};
  for (Value operand : dot->getOperands().take_front(2)) {
    std::optional<int64_t> exponent = getHintExponent(operand);
    if (!exponent)
      return {found.role, found.decision, {}, {}};
    found.exponents.push_back(static_cast<int32_t>(*exponent));
    found.areGradients.push_back(isGradient(operand));
  }
  return found;
}

/// True if one scale can serve each operand. Code that JAX hides has one place
/// for all of its dots: the squares of a matrix power are no layers of a stack.
static bool canShareScales(ArrayRef<Judgement> found) {
  for (unsigned operand : {0, 1}) {
    int32_t least = INT32_MAX, most = INT32_MIN;
    bool areGradients = true;
    for (const Judgement &one : found) {
      if (one.exponents.empty())
        continue;
      least = std::min(least, one.exponents[operand]);
      most = std::max(most, one.exponents[operand]);
      areGradients &= one.areGradients[operand];
    }
    if (least < most && most - least > getLargestSpread(areGradients))
      return false;
  }
  return true;
}

/// Dots at one place are decided together.
void PlainForm::joinPlaces() {
  joined.grow(classes.getNumClasses());
  for (const auto &place : places) {
    llvm::SmallSetVector<unsigned, 8> members;
    for (unsigned number : place.second)
      members.insert(classes[number]);
    auto get = [&](unsigned i) { return found[i]; };
    if (canShareScales(llvm::map_to_vector(members, get)))
      for (unsigned member : members)
        joined.join(members.front(), member);
  }
  joined.compress();
  std::vector<Judgement> all(joined.getNumClasses());
  for (auto [i, one] : llvm::enumerate(found))
    join(all[joined[i]], one);
  found = std::move(all);
}

void PlainForm::judge(RecipeAttr recipe, const NoiseOptions &noise) {
  ExceptionPatterns exceptions(recipe);
  DotFormatChooser formats(recipe, main, exceptions, noise);
  found.resize(classes.getNumClasses());
  for (Operation *dot : collectDots(main))
    if (std::optional<unsigned> number = getNumber(dot))
      join(found[classes[*number]], judgeDot(dot, formats));
  joinPlaces();
}

void PlainForm::markOriginal() const {
  for (auto [i, dot] : llvm::enumerate(original)) {
    unsigned number = joined[classes[i]];
    const Judgement &own = found[number];
    Builder builder(dot->getContext());
    dot->setAttr(kPlainClassAttr, builder.getI64IntegerAttr(number));
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
