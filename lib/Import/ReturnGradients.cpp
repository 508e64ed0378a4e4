//===- ReturnGradients.cpp - Gradients as the results of a step -----------===//
//
// Whether formats of dots hold a step's gradients near those of F32 is measured
// by two programs that return these gradients and nothing else: one in F32, one
// in the formats (docs/stages/precision.md).
//
//===----------------------------------------------------------------------===//

#include "ArgumentInfo.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Import/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace scalify {
#define GEN_PASS_DEF_RETURNGRADIENTSPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
struct ReturnGradients
    : scalify::impl::ReturnGradientsPassBase<ReturnGradients> {
  void runOnOperation() override;
};
} // namespace

/// True if the optimizer or the caller reads the value.
static bool isTaken(Value value, Block &body) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = body.findAncestorOpInBlock(*use.getOwner());
    return user->hasTrait<OpTrait::IsTerminator>() ||
           isInPhase(user, Phase::Optimizer);
  });
}

static Value getReturned(Region &region, unsigned index) {
  return region.front().getTerminator()->getOperand(index);
}

/// True if the backward computes the value. A loop over micro-batches or steps
/// is in the backward as a whole: its body decides, which also computes sums of
/// losses, activations and updated parameters.
static bool isGradient(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->hasTrait<OpTrait::ConstantLike>())
    return false;
  unsigned index = cast<OpResult>(value).getResultNumber();
  if (auto loop = dyn_cast<stablehlo::WhileOp>(op))
    return isGradient(getReturned(loop.getBody(), index));
  if (stablehlo::isControlFlow(op))
    return llvm::any_of(op->getRegions(), [&](Region &region) {
      return isGradient(getReturned(region, index));
    });
  if (auto update = dyn_cast<stablehlo::DynamicUpdateSliceOp>(op))
    return isGradient(update.getUpdate());
  return isInPhase(op, Phase::Backward);
}

static SmallVector<Value> findGradients(Block &body) {
  SmallVector<Value> gradients;
  for (Operation &op : body)
    for (Value value : op.getResults()) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (type && isa<FloatType>(type.getElementType()) &&
          type.getNumElements() > 1 && isTaken(value, body) &&
          isGradient(value))
        gradients.push_back(value);
    }
  return gradients;
}

void ReturnGradients::runOnOperation() {
  FailureOr<func::FuncOp> main = scalify::import::getMain(getOperation());
  if (failed(main))
    return signalPassFailure();
  Block &body = main->getBody().front();
  SmallVector<Value> gradients = findGradients(body);
  body.getTerminator()->setOperands(gradients);
  main->setFunctionType(FunctionType::get(&getContext(),
                                          main->getArgumentTypes(),
                                          ValueRange(gradients).getTypes()));
  main->removeResAttrsAttr();
  // Ranks of data parallelism have the gradients of their own batch.
  for (unsigned index = 0; index < gradients.size(); ++index)
    main->setResultAttr(index, kOfEachRankAttr, UnitAttr::get(&getContext()));
  for (unsigned index = 0; index < main->getNumArguments(); ++index)
    main->removeArgAttr(index, kAliasAttr);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
}
