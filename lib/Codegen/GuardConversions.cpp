//===- GuardConversions.cpp - Guards around float conversions -------------===//

#include "scalify/Codegen/GuardConversions.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

static void freezeResult(Operation *conversion) {
  OpBuilder b(conversion);
  b.setInsertionPointAfter(conversion);
  Value result = conversion->getResult(0);
  auto frozen = LLVM::FreezeOp::create(b, conversion->getLoc(), result);
  result.replaceAllUsesExcept(frozen, frozen);
}

static void fenceOperands(LLVM::FCmpOp comparison) {
  OpBuilder b(comparison);
  for (OpOperand &operand : comparison->getOpOperands()) {
    if (!operand.get().getDefiningOp<LLVM::FPExtOp>())
      continue;
    auto fence = LLVM::CallIntrinsicOp::create(
        b, comparison.getLoc(), operand.get().getType(),
        b.getStringAttr("llvm.arithmetic.fence"), operand.get());
    operand.set(fence.getResult(0));
  }
}

void scalify::codegen::guardConversions(Operation *kernels) {
  kernels->walk([](Operation *op) {
    if (isa<LLVM::FPToSIOp, LLVM::FPToUIOp>(op))
      freezeResult(op);
    else if (auto comparison = dyn_cast<LLVM::FCmpOp>(op))
      fenceOperands(comparison);
  });
}
