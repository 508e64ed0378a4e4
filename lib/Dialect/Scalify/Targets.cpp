//===- Targets.cpp - The registry of targets ------------------------------===//

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace scalify;

static SmallVector<const Target *> &getRegistry() {
  static SmallVector<const Target *> targets;
  return targets;
}

void scalify::registerTarget(const Target &target) {
  getRegistry().push_back(&target);
}

ArrayRef<const Target *> scalify::getTargets() { return getRegistry(); }

std::string scalify::getTargetNames() {
  auto names = llvm::map_range(getTargets(), [](const Target *target) {
    return StringRef(target->getInfo().name);
  });
  return llvm::join(names, ", ");
}

const Target *scalify::findTarget(StringRef name) {
  for (const Target *target : getTargets()) {
    const TargetInfo &info = target->getInfo();
    if (info.name == name || llvm::is_contained(info.aliases, name))
      return target;
  }
  return nullptr;
}

bool scalify::isGPUTarget(StringRef name) {
  const Target *target = findTarget(name);
  return target && target->getInfo().isGPU;
}

bool ProductFormats::has(Type element) const {
  if (element.isBF16())
    return bf16;
  if (element.isF16())
    return f16;
  return fp8 && isa<Float8E4M3FNType, Float8E5M2Type>(element);
}

double ProductRates::of(Type element) const {
  unsigned width = element.getIntOrFloatBitWidth();
  return width <= 8 ? bits8 : width <= 16 ? bits16 : f32;
}

LogicalResult
TargetAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   StringRef name) {
  const Target *target = findTarget(name);
  if (target && target->getInfo().name == name)
    return success();
  return emitError() << "unknown target '" << name << "': expected one of "
                     << getTargetNames();
}

const Target &TargetAttr::getTarget(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  auto attr =
      module ? module->getAttrOfType<TargetAttr>(kTargetAttr) : TargetAttr();
  const Target *target = findTarget(attr ? attr.getName() : StringRef(kCPU));
  assert(target && "registerAllTargets was not called");
  return *target;
}

const TargetInfo &TargetAttr::of(Operation *op) {
  return getTarget(op).getInfo();
}

void TargetAttr::set(ModuleOp module, StringRef name) {
  if (name == kCPU)
    module->removeAttr(kTargetAttr);
  else
    module->setAttr(kTargetAttr, TargetAttr::get(module.getContext(), name));
}
