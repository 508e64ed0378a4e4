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

/// Hides from LLVM that operands are the results of a conversion.
template <typename Conversion> static void fenceOperands(Operation *op) {
  OpBuilder b(op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (!operand.get().getDefiningOp<Conversion>())
      continue;
    auto fence = LLVM::CallIntrinsicOp::create(
        b, op->getLoc(), operand.get().getType(),
        b.getStringAttr("llvm.arithmetic.fence"), operand.get());
    operand.set(fence.getResult(0));
  }
}

void scalify::codegen::guardConversions(Operation *kernels) {
  kernels->walk([](Operation *op) {
    if (isa<LLVM::FPToSIOp, LLVM::FPToUIOp>(op))
      freezeResult(op);
    else if (isa<LLVM::FCmpOp>(op))
      fenceOperands<LLVM::FPExtOp>(op);
    else if (isa<LLVM::FPTruncOp>(op))
      fenceOperands<LLVM::FPTruncOp>(op);
  });
}
