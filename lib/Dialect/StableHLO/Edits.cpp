//===- Edits.cpp - Edits of ops and functions in place --------------------===//

#include "scalify/Dialect/StableHLO/Edits.h"

#include "scalify/Dialect/StableHLO/ControlFlow.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace scalify;

void stablehlo::eraseDeadOps(Block &block, bool inControlFlow) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
    else if (inControlFlow && isControlFlow(&op))
      for (Region &region : op.getRegions())
        eraseDeadOps(region.front(), inControlFlow);
}

Operation *stablehlo::rebuildOp(Operation *op, ValueRange operands,
                                TypeRange types) {
  OperationState state(op->getLoc(), op->getName(), operands, types,
                       op->getAttrs());
  for (Region &region : op->getRegions())
    state.addRegion()->takeBody(region);
  return OpBuilder(op).create(state);
}

void stablehlo::updateFunctionType(FunctionOpInterface function) {
  Block &body = function.getFunctionBody().front();
  function.setType(FunctionType::get(function->getContext(),
                                     body.getArgumentTypes(),
                                     body.getTerminator()->getOperandTypes()));
}
