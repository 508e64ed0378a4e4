//===- TargetOps.cpp - Types and ops that the CPU target supports ---------===//

#include "TargetOps.h"

#include "LapackCalls.h"
#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

using namespace mlir;
using namespace scalify;

bool scalify::isComputed(Type element) {
  return element.isF64() || element.isF32() || element.isF16() ||
         element.isBF16() || hasFP8Elements(element);
}

bool scalify::isInMemory(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return false;
  Type element = tensor.getElementType();
  return !isa<ComplexType>(element) &&
         (!isa<FloatType>(element) || isComputed(element));
}

bool scalify::isCallback(Operation *op) {
  auto call = dyn_cast<stablehlo::CustomCallOp>(op);
  if (!call)
    return false;
  StringRef target = call.getCallTargetName();
  return target.contains("python") && target.ends_with("callback");
}

bool scalify::isExchanging(Operation *op) {
  WalkResult found = op->walk([](Operation *inner) {
    if (auto loop = dyn_cast<plan::IterateOp>(inner)) {
      Operation *body =
          SymbolTable::lookupNearestSymbolFrom(loop, loop.getCalleeAttr());
      if (body && isExchanging(body))
        return WalkResult::interrupt();
    }
    return isa<plan::CommunicateOp>(inner) ? WalkResult::interrupt()
                                           : WalkResult::advance();
  });
  return found.wasInterrupted();
}

bool scalify::hasEffects(Operation *op) {
  WalkResult found = op->walk([](Operation *inner) {
    auto call = dyn_cast<stablehlo::CustomCallOp>(inner);
    auto invoke = dyn_cast<plan::InvokeOp>(inner);
    bool has =
        (invoke && invoke.getHasEffects()) || (call && call.getHasSideEffect());
    return has ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found.wasInterrupted();
}

bool scalify::isInCPUTarget(Operation *op) {
  using namespace stablehlo;
  // Its complex operands and results become their parts.
  if (matchLapack(op))
    return true;
  if (!llvm::all_of(op->getOperandTypes(), isInMemory) ||
      !llvm::all_of(op->getResultTypes(), isInMemory))
    return false;
  if (isa<CustomCallOp, CholeskyOp, TriangularSolveOp>(op))
    return isCallback(op);
  if (auto loop = dyn_cast<WhileOp>(op))
    return getTripCount(loop).has_value() ||
           !(hasEffects(loop) || isExchanging(loop));
  return !isa<DynamicGatherOp, DynamicBroadcastInDimOp, DynamicConvOp,
              DynamicIotaOp, DynamicPadOp, DynamicReshapeOp, FftOp,
              RealDynamicSliceOp, RngOp, SetDimensionSizeOp>(op);
}
