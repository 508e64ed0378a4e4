//===- Targets.cpp - The table of devices ---------------------------------===//

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace scalify;

// The CPU is one core and a BLAS. A call costs as much as a product of two 20 x
// 20 matrices, and a copy reads and writes an F32 element in half a nanosecond.
//
// The GPU is an H100 SXM5. The rates are those that large products and copies
// reach, of 989, 1979 and 494 TFLOP/s (TF32) and 3350 GB/s on the data sheet;
// docs/planner.md names the measurements.
static constexpr TargetInfo kTargets[] = {
    {/*chip=*/kCPU, /*isGPU=*/false, /*callsTakeBatch=*/false, /*launch=*/0,
     /*call=*/300, /*event=*/0, /*bandwidth=*/16, /*processors=*/1, /*tile=*/1,
     /*flops=*/{50, 50, 50}},
    {/*chip=*/kHopper, /*isGPU=*/true, /*callsTakeBatch=*/true,
     /*launch=*/2000, /*call=*/4000, /*event=*/2000, /*bandwidth=*/3050,
     /*processors=*/132, /*tile=*/128, /*flops=*/{6e4, 7.67e5, 1.4e6}},
};

double ProductRates::of(Type element) const {
  unsigned width = element.getIntOrFloatBitWidth();
  return width <= 8 ? bits8 : width <= 16 ? bits16 : f32;
}

ArrayRef<TargetInfo> scalify::getTargets() { return kTargets; }

const TargetInfo *scalify::findTarget(StringRef chip) {
  for (const TargetInfo &info : kTargets)
    if (info.chip == chip)
      return &info;
  return nullptr;
}

bool scalify::isGPUTarget(StringRef chip) {
  const TargetInfo *info = findTarget(chip);
  return info && info->isGPU;
}

LogicalResult
TargetAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   StringRef chip) {
  if (findTarget(chip))
    return success();
  auto chips = llvm::map_range(
      getTargets(), [](const TargetInfo &info) { return info.chip; });
  return emitError() << "unknown target '" << chip << "': expected one of "
                     << llvm::join(chips, ", ");
}

const TargetInfo &TargetAttr::getInfo() const { return *findTarget(getChip()); }

const TargetInfo &TargetAttr::of(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  auto target =
      module ? module->getAttrOfType<TargetAttr>(kTargetAttr) : TargetAttr();
  return target ? target.getInfo() : *findTarget(kCPU);
}

void TargetAttr::set(ModuleOp module, StringRef chip) {
  if (chip == kCPU)
    module->removeAttr(kTargetAttr);
  else
    module->setAttr(kTargetAttr, TargetAttr::get(module.getContext(), chip));
}
