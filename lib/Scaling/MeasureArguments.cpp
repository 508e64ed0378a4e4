//===- MeasureArguments.cpp - Arguments whose scales the step measures ----===//
//
// An argument without a declared scale may have any size, and a guess that is
// off by a few binades reaches every cast downstream. So the step reads the
// argument once for its root mean square.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Scaling/Passes.h"

#include "scalify/Scaling/MeasuredArguments.h"
#include "scalify/Scaling/Priors.h"
#include "scalify/Scaling/ScaleAnalysis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>

namespace scalify {
#define GEN_PASS_DEF_MEASUREARGUMENTS
#include "scalify/Scaling/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// True if casts use the scales of the rules, in a format with fewer exponents
/// than the program's. True also if no recipe is known yet.
static bool readsScales(ModuleOp module) {
  if (!module->hasAttr(kRecipeAttr))
    return true;
  RecipeAttr recipe = RecipeAttr::of(module);
  return recipe.getScales() == ScaleSource::Propagated &&
         (recipe.castsToFloat8() || !isa<BFloat16Type>(recipe.getForward()) ||
          !isa<BFloat16Type>(recipe.getGradient()));
}

std::optional<double> scalify::predictWeight(BlockArgument arg,
                                             const Priors &priors) {
  auto shape = cast<ShapedType>(arg.getType()).getShape();
  std::optional<double> gain = priors.get(kUnitGain);
  if (!gain || shape.size() < 2 || !isParameter(arg) || !feedsDot(arg))
    return std::nullopt;
  // The width of a stack's matrices: the geometric mean of their sides.
  auto sides = static_cast<double>(shape.back() * shape[shape.size() - 2]);
  return *gain / std::pow(std::max(1.0, sides), 0.25);
}

/// Returns log2 of the assumed size of an argument before it is measured. The
/// rules of functions and sums depend on sizes and are then near the truth.
static int64_t predictSize(BlockArgument arg, const Priors &priors) {
  return std::lround(std::log2(predictWeight(arg, priors).value_or(1)));
}

namespace {
struct MeasureArgumentsPass
    : scalify::impl::MeasureArgumentsBase<MeasureArgumentsPass> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal() || !readsScales(getOperation()))
      return markAllAnalysesPreserved();
    Builder builder(&getContext());
    Priors priors = Priors::of(main);
    // If arguments were measured, so were scalars: a scalar without a scale was
    // zero then, and sets no scale.
    bool areMeasured =
        llvm::any_of(main.getArguments(), [&](BlockArgument arg) {
          return main.getArgAttr(arg.getArgNumber(), kScaleAttr) != nullptr;
        });
    for (BlockArgument arg : main.getArguments()) {
      unsigned index = arg.getArgNumber();
      Type type = arg.getType();
      if (!(areMeasured ? hasScale(type) : isScalableTensor(type)) ||
          main.getArgAttr(index, kScaleAttr) || takesWrittenScale(main, index))
        continue;
      main.setArgAttr(index, kMeasuredAttr,
                      builder.getI32IntegerAttr(predictSize(arg, priors)));
      ++numArguments;
      numBytes += countBytes(arg);
    }
  }
};
} // namespace
