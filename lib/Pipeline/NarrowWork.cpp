//===- NarrowWork.cpp - The narrow share of a step's work -----------------===//

#include "scalify/Pipeline/NarrowWork.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Precision/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

static double countElements(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return static_cast<double>(type.getNumElements());
}

/// Returns the multiplications and additions of one execution of the op.
static double countOwnWork(Operation *op) {
  double lhs = countElements(op->getOperand(0));
  double rhs = countElements(op->getOperand(1));
  double out = countElements(op->getResult(0));
  if (auto conv = dyn_cast<stablehlo::ConvolutionOp>(op)) {
    int64_t features =
        conv.getDimensionNumbers().getKernelOutputFeatureDimension();
    auto kernel = cast<RankedTensorType>(conv.getRhs().getType());
    return 2 * out * rhs / static_cast<double>(kernel.getDimSize(features));
  }
  double batch = 1;
  if (auto dot = dyn_cast<stablehlo::DotGeneralOp>(op))
    for (int64_t dim : dot.getDotDimensionNumbers().getLhsBatchingDimensions())
      batch *= static_cast<double>(dot.getLhs().getType().getDimSize(dim));
  // bMK, bKN and bMN elements: their product is b(bMNK)^2.
  return 2 * std::sqrt(lhs * rhs * out / std::max(batch, 1.0));
}

double scalify::countWork(Operation *dot) {
  double work = countOwnWork(dot);
  for (Operation *op = dot->getParentOp(); op; op = op->getParentOp())
    if (auto loop = dyn_cast<stablehlo::WhileOp>(op))
      if (std::optional<int64_t> trips = stablehlo::getTripCount(loop))
        work *= static_cast<double>(*trips);
  return work;
}

/// Returns the reason's part. Attention's three roles are one part.
static StringRef getPart(DecisionAttr decision) {
  switch (symbolizeDotRole(decision.getPart()).value_or(DotRole::Linear)) {
  case DotRole::AttentionQK:
  case DotRole::AttentionPV:
  case DotRole::AttentionDS:
    return "attention";
  default:
    return decision.getPart();
  }
}

static std::optional<DotRole> getRole(StringRef part) {
  return part == "attention" ? DotRole::AttentionQK : symbolizeDotRole(part);
}

static std::string getRemedy(StringRef part) {
  if (part == "sensitive_wide")
    part = "sensitive";
  if (getRole(part) || part == "sensitive" || part == "unprofitable")
    return llvm::formatv(" ('{0} = true' in the recipe casts them)", part);
  if (part == "scale")
    return " (scales of arguments are missing or too large: measure them)";
  return " (the report has the reason of each)";
}

namespace {
struct Work {
  unsigned count = 0;
  double flops = 0;
};
} // namespace

namespace {
/// The products that a recipe is meant to cast: all but those that its author,
/// or the program, keeps wide.
class NarrowableProducts {
public:
  NarrowableProducts(RecipeAttr recipe, func::FuncOp main) : recipe(recipe) {
    preset = RecipeAttr::getPreset(recipe.getContext(), recipe.getName());
    if (!preset)
      preset = RecipeAttr::getPreset(recipe.getContext(), "fp8");
    DotFormats linear = recipe.getFormats(DotRole::Linear);
    castsLinear = !linear.forward.isF32() || !linear.gradient.isF32();
    main.walk(
        [&](Operation *op) { trains |= getPhase(op) == Phase::Backward; });
  }

  /// `part` is the reason why the product is wide.
  bool contains(StringRef part) const {
    if (part == "name" || part == "recipe" || part == "given" ||
        symbolizeDotKind(part))
      return false;
    std::optional<DotRole> role = getRole(part);
    if (!role)
      return true;
    // Presets keep parts wide that are a small share of a model's work; users
    // whose model has other shares are warned. Update rules iterate and are
    // never such a part.
    return castsLinear && *role != DotRole::Optimizer &&
           (trains || *role == DotRole::Convolution) &&
           recipe.getFormats(*role) == preset.getFormats(*role);
  }

private:
  RecipeAttr recipe, preset;
  bool castsLinear, trains = false;
};
} // namespace

std::string scalify::describeWideWork(ModuleOp module) {
  RecipeAttr recipe = RecipeAttr::of(module);
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal() || !recipe.castsDots())
    return "";
  NarrowableProducts wanted(recipe, main);
  Work all, wide;
  llvm::MapVector<StringRef, Work> reasons;
  main.walk([&](Operation *op) {
    if (!stablehlo::isContraction(op) || !stablehlo::isProgramCode(op))
      return;
    auto decision = op->getAttrOfType<DecisionAttr>(kWideAttr);
    StringRef part = decision ? getPart(decision) : "";
    if (decision && !wanted.contains(part))
      return;
    double flops = countWork(op);
    for (Work *work : {&all, decision ? &wide : nullptr,
                       decision ? &reasons[part] : nullptr})
      if (work) {
        ++work->count;
        work->flops += flops;
      }
  });
  if (2 * wide.flops <= all.flops)
    return "";
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::formatv("recipe '{0}' leaves {1} of {2} products wide, {3:f0} % "
                      "of their FLOPs:",
                      recipe.getName(), wide.count, all.count,
                      100 * wide.flops / all.flops);
  const char *separator = " ";
  for (auto &[part, work] : reasons) {
    os << separator << work.count << " by '" << part << "'" << getRemedy(part);
    separator = ", ";
  }
  return text;
}
