//===- CheckOps.cpp - Refuse ops of other dialects ------------------------===//
//
// Sizes of dynamic shapes are computed by other dialects' ops on scalars and
// indices, which are folded before. The passes that follow know tensors only.
//
//===----------------------------------------------------------------------===//

#include "scalify/Import/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace scalify {
#define GEN_PASS_DEF_CHECKOPSPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;

static bool isKnown(Operation *op) {
  constexpr StringLiteral dialects[] = {"stablehlo", "chlo", "check", "sdy",
                                        "scalify"};
  return isa<func::FuncOp, func::ReturnOp>(op) ||
         llvm::is_contained(dialects, op->getName().getDialectNamespace());
}

namespace {

struct CheckOps : scalify::impl::CheckOpsPassBase<CheckOps> {
  void runOnOperation() override {
    // Users first, so that all of a dead computation goes.
    WalkResult result =
        getOperation()->walk<WalkOrder::PostOrder, ReverseIterator>(
            [](Operation *op) {
              if (isKnown(op))
                return WalkResult::advance();
              if (isOpTriviallyDead(op)) {
                op->erase();
                return WalkResult::advance();
              }
              // Sizes of an op that becomes static by a fold.
              if (op->hasTrait<OpTrait::ConstantLike>() &&
                  isa<RankedTensorType>(op->getResult(0).getType()))
                return WalkResult::advance();
              op->emitOpError("is not a stablehlo op");
              return WalkResult::interrupt();
            });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
