//===- ValidatePrecision.cpp - Check what Precision promises to Fusion ----===//

#include "scalify/Precision/Passes.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/DenseMap.h"

namespace scalify {
#define GEN_PASS_DEF_VALIDATEPRECISION
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static LogicalResult checkDot(stablehlo::DotGeneralOp dot, bool casts) {
  bool lhs = static_cast<bool>(dot.getLhs().getDefiningOp<DequantizeOp>());
  bool rhs = static_cast<bool>(dot.getRhs().getDefiningOp<DequantizeOp>());
  if (lhs != rhs)
    return dot.emitOpError("has one FP8 operand and one wide operand");
  if (casts && !lhs && !dot->hasAttr(kWideAttr))
    return dot.emitOpError("is neither on FP8 operands nor marked ")
           << kWideAttr << " with a reason";
  return success();
}

namespace {
struct ValidatePrecisionPass
    : scalify::impl::ValidatePrecisionBase<ValidatePrecisionPass> {
  using ValidatePrecisionBase::ValidatePrecisionBase;

  void runOnOperation() override {
    bool casts = RecipeAttr::of(getOperation()).castsDots();
    DenseMap<std::pair<Value, Type>, QuantizeOp> casted;
    WalkResult result = getOperation().walk([&](Operation *op) -> WalkResult {
      if (isa<SetScaleOp, PackOp, UnpackOp, RescaleOp>(op))
        return op->emitOpError("is left after quantisation");
      if (auto dot = dyn_cast<stablehlo::DotGeneralOp>(op))
        return checkDot(dot, casts);
      if (auto quantize = dyn_cast<QuantizeOp>(op)) {
        auto [it, isNew] = casted.try_emplace(
            {quantize.getValue(), quantize.getType()}, quantize);
        if (!isNew) {
          InFlightDiagnostic diag =
              quantize.emitOpError("casts a value that is cast already");
          diag.attachNote(it->second.getLoc()) << "first cast here";
          return diag;
        }
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace

void scalify::buildPrecisionPipeline(OpPassManager &pm,
                                     const PrecisionOptions &options) {
  QuantizeDotsOptions quantize;
  quantize.recipe = options.recipe;
  quantize.strict = options.strict;
  quantize.remarks = options.remarks;
  pm.addPass(createQuantizeDots(quantize));
  pm.addPass(createValidatePrecision());
}
