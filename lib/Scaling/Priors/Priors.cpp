//===- Priors.cpp - The table of priors -----------------------------------===//

#include "scalify/Scaling/Priors.h"

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace scalify;

const Prior scalify::kZeroParameters = {
    "zero-parameters",
    "a parameter that starts at zero is soon as large as others", 0x1p-6,
    "the power of two next to 0.02, the usual size of a weight"};

const Prior scalify::kUnitGain = {
    "unit-gain", "a weight keeps the size of what it is multiplied with", 1,
    "what initialisations aim at (Glorot and Bengio 2010, He et al. 2015)"};

const Prior scalify::kFallingResiduals = {
    "falling-residuals",
    "a regression's residual falls to a part of its target", 0x1p6,
    "a residual of an eighth, at which R^2 is 0.98"};

ArrayRef<const Prior *> scalify::getPriors() {
  static const Prior *const priors[] = {&kZeroParameters, &kUnitGain,
                                        &kSharpSoftmax, &kBoundedCarries,
                                        &kFallingResiduals};
  return priors;
}

static const Prior *findPrior(StringRef name) {
  for (const Prior *prior : getPriors())
    if (prior->name == name)
      return prior;
  return nullptr;
}

/// Returns the names that a module, or else its recipe, lists.
static SmallVector<StringRef> getNames(ModuleOp module) {
  if (auto names = module->getAttrOfType<ArrayAttr>(kPriorsAttr))
    return llvm::map_to_vector(names.getAsRange<StringAttr>(),
                               [](StringAttr name) { return name.getValue(); });
  return llvm::map_to_vector(RecipeAttr::of(module).getPriors(),
                             [](StringAttr name) { return name.getValue(); });
}

Priors Priors::all() {
  Priors priors;
  priors.used.insert_range(getPriors());
  return priors;
}

Priors Priors::of(Operation *op) {
  Priors priors;
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  SmallVector<StringRef> names{"default"};
  if (module)
    names = getNames(module);
  for (StringRef name : names) {
    if (name == "default")
      priors.used.insert_range(getPriors());
    else if (const Prior *prior = findPrior(name))
      priors.used.insert(prior);
  }
  return priors;
}

void Priors::refine(const FactsQuery &query, ScaleFacts &facts) const {
  for (const Prior *prior : getPriors())
    if (prior->refine && used.contains(prior) &&
        prior->refine(query, prior->constant, facts)) {
      wasAsked = true;
      return;
    }
}

LogicalResult scalify::verifyPriors(ModuleOp module) {
  for (StringRef name : getNames(module)) {
    if (name == "default" || name == "none" || findPrior(name))
      continue;
    auto known = llvm::map_to_vector(
        getPriors(), [](const Prior *prior) { return StringRef(prior->name); });
    return module.emitError("unknown prior '")
           << name << "': expected none, default or some of "
           << llvm::join(known, ", ");
  }
  return success();
}

LogicalResult scalify::setPriors(ModuleOp module, ArrayRef<std::string> names) {
  auto refs = llvm::to_vector_of<StringRef>(names);
  module->setAttr(kPriorsAttr,
                  Builder(module.getContext()).getStrArrayAttr(refs));
  return verifyPriors(module);
}
