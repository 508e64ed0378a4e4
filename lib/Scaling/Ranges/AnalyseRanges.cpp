//===- AnalyseRanges.cpp - Prove that casts cannot saturate ---------------===//

#include "scalify/Scaling/Passes.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Scaling/RangeProofs.h"
#include "scalify/Scaling/ScaleArithmetic.h"

#include "llvm/ADT/SetVector.h"

namespace scalify {
#define GEN_PASS_DEF_ANALYSERANGES
#include "scalify/Scaling/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// Returns the format that the recipe casts the value to.
static FloatType getFormat(RecipeAttr recipe, Value value) {
  Operation *op =
      lookThrough(value, Move::Reshape | Move::Transpose).getDefiningOp();
  bool isGradient = op && getPhase(op) == Phase::Backward;
  return cast<FloatType>(isGradient ? recipe.getGradient()
                                    : recipe.getForward());
}

namespace {
struct AnalyseRangesPass : scalify::impl::AnalyseRangesBase<AnalyseRangesPass> {
  using AnalyseRangesBase::AnalyseRangesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (annotate != "casts" && annotate != "all") {
      module.emitError("unknown value '")
          << annotate << "' of option 'annotate': expected casts or all";
      return signalPassFailure();
    }
    FailureOr<ModuleRanges> ranges = ModuleRanges::compute(module);
    if (failed(ranges)) {
      module.emitError("the range analysis did not finish");
      return signalPassFailure();
    }
    RecipeAttr recipe = RecipeAttr::of(module);
    llvm::SetVector<Value> assumed;
    module.walk([&](ScaleHintOp hint) {
      RangeProof proof =
          proveCast(*ranges, hint.getValue(), getScale(recipe, hint),
                    getFormat(recipe, hint.getValue()));
      annotateCast(hint, proof);
      assumed.insert(proof.assumed.begin(), proof.assumed.end());
    });
    setAssumptions(module, assumed.getArrayRef());
    if (annotate == "all")
      annotateAll(module, *ranges);
  }

  std::optional<double> getScale(RecipeAttr recipe, ScaleHintOp hint) {
    if (recipe.getScales() == ScaleSource::Unit)
      return 1;
    if (recipe.getScales() == ScaleSource::Current ||
        recipe.getScales() == ScaleSource::Block ||
        recipe.getScales() == ScaleSource::Delayed)
      return std::nullopt;
    std::optional<float> scale = getConstantScale(hint.getScale());
    return scale && *scale > 0 ? scale : std::nullopt;
  }

  void annotateCast(ScaleHintOp hint, const RangeProof &proof) {
    hint->setAttr(proof.isProved ? kProvedAttr : kUnprovedAttr,
                  proof.toAttribute(&getContext()));
    ++(proof.isProved ? numProved : numUnproved);
    if (!remarks)
      return;
    InFlightDiagnostic remark = hint.emitRemark(describeProof(hint));
    if (proof.lostAt)
      remark.attachNote(proof.lostAt.getLoc()) << "the bound is lost here";
  }

  /// Sets the assumptions of the proofs on the module, for the artefact.
  void setAssumptions(ModuleOp module, ArrayRef<Value> assumed) {
    Builder builder(&getContext());
    SmallVector<Attribute> entries;
    for (Value value : assumed) {
      auto argument = cast<BlockArgument>(value);
      NamedAttrList entry(getRangeAttr(argument));
      // A plain array, so that the manifest writes a list.
      if (auto norms = entry.get("norms"))
        if (auto values = dyn_cast<DenseF64ArrayAttr>(norms))
          entry.set("norms", builder.getF64ArrayAttr(values.asArrayRef()));
      entry.set("argument",
                builder.getStringAttr(scalify::getArgumentName(argument)));
      entry.set("index", builder.getI64IntegerAttr(argument.getArgNumber()));
      entries.push_back(entry.getDictionary(&getContext()));
    }
    if (!entries.empty())
      module->setAttr(kAssumptionsAttr, builder.getArrayAttr(entries));
  }

  void annotateAll(ModuleOp module, const ModuleRanges &ranges) {
    Builder builder(&getContext());
    module.walk([&](Operation *op) {
      if (op->getNumResults() == 0)
        return;
      SmallVector<Attribute> entries;
      for (Value result : op->getResults())
        entries.push_back(toAttribute(&getContext(), ranges.lookup(result)));
      op->setAttr(kRangesAttr, builder.getArrayAttr(entries));
    });
  }
};
} // namespace
