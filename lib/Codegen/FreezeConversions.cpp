//===- FreezeConversions.cpp - Integers of any float ----------------------===//

#include "FreezeConversions.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

void scalify::codegen::freezeConversions(Operation *kernels) {
  kernels->walk([](Operation *op) {
    if (!isa<LLVM::FPToSIOp, LLVM::FPToUIOp>(op))
      return;
    OpBuilder b(op);
    b.setInsertionPointAfter(op);
    Value result = op->getResult(0);
    auto frozen = LLVM::FreezeOp::create(b, op->getLoc(), result);
    result.replaceAllUsesExcept(frozen, frozen);
  });
}
