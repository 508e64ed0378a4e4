//===- FoldScales.cpp - Fold scale arithmetic away ------------------------===//
//
// A rescale of an operand is moved below the op: through an op that moves
// data as it is, through a sum if all operands carry the same one, through a
// product as the product of both. Chains of rescales merge, and from an
// argument's rescale (true to data) to the rescale before an op that needs
// true values (data to true) they cancel. A dot keeps what it knew of its
// operands as scalify.set_scale.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Passes.h"

#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Scaling/ScaleAnalysis.h"
#include "scalify/Scaling/ScaleArithmetic.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace scalify {
#define GEN_PASS_DEF_FOLDSCALES
#include "scalify/Scaling/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {

class ScaleFolder {
public:
  explicit ScaleFolder(func::FuncOp func)
      : block(func.getBody().front()), scales(block),
        builder(func.getContext()) {}
  void run();

private:
  void visitBlock(Block &block);
  void eraseDead(Block &block);
  void visit(Operation *op);
  void sinkThroughRegions(Operation *op);
  void makeTrue(OpOperand &operand, Value scale);
  void makeDataBelow(Value value, Value scale);
  void sink(Operation *op, Value from, Value to);
  bool sinkAligned(Operation *op);
  void sinkEach(Operation *op);
  void sinkProduct(Operation *op, bool quotient);
  void markDotOperands(Operation *op);

  Block &block;
  ScaleArithmetic scales;
  OpBuilder builder;
};

} // namespace

/// Zeros, infinities and masks pass as data of any scale, also where a loop
/// carries them as they are.
static bool adoptsAnyScale(Value value) {
  while (true) {
    value = stablehlo::skipInvariantCarries(value);
    Operation *op = value.getDefiningOp();
    if (auto rescale = dyn_cast_or_null<RescaleOp>(op))
      value = rescale.getData();
    else if (isa_and_present<stablehlo::OptimizationBarrierOp>(op))
      value = op->getOperand(cast<OpResult>(value).getResultNumber());
    else
      return op && op->hasAttr(kAnyScaleAttr);
  }
}

/// Bypasses the operands' rescales and puts one on the results.
void ScaleFolder::sink(Operation *op, Value from, Value to) {
  for (OpOperand &operand : op->getOpOperands())
    if (auto rescale = operand.get().getDefiningOp<RescaleOp>())
      operand.set(rescale.getData());
  // A product with zero is data of any scale, which nothing brings back.
  if (op->hasAttr(kAnyScaleAttr))
    return;
  builder.setInsertionPointAfter(op);
  for (Value result : op->getResults()) {
    if (!isFloatTensor(result.getType()))
      continue;
    Value below = scales.rescale(builder, op->getLoc(), result, from, to);
    if (below != result)
      result.replaceAllUsesExcept(below, below.getDefiningOp());
  }
}

bool ScaleFolder::sinkAligned(Operation *op) {
  Value from, to;
  for (Value operand : op->getOperands()) {
    if (!isFloatTensor(operand.getType()) || adoptsAnyScale(operand))
      continue;
    auto rescale = operand.getDefiningOp<RescaleOp>();
    if (!rescale || (from && !(isSameScale(rescale.getFrom(), from) &&
                               isSameScale(rescale.getTo(), to))))
      return false;
    from = rescale.getFrom();
    to = rescale.getTo();
  }
  if (from)
    sink(op, from, to);
  return true;
}

/// Moves the rescale of each operand below the result of its number.
void ScaleFolder::sinkEach(Operation *op) {
  builder.setInsertionPointAfter(op);
  for (auto [operand, result] :
       llvm::zip(op->getOpOperands(), op->getResults())) {
    auto rescale = operand.get().getDefiningOp<RescaleOp>();
    if (!rescale)
      continue;
    operand.set(rescale.getData());
    Value below = scales.rescale(builder, op->getLoc(), result,
                                 rescale.getFrom(), rescale.getTo());
    if (below != result)
      result.replaceAllUsesExcept(below, below.getDefiningOp());
  }
}

void ScaleFolder::markDotOperands(Operation *op) {
  // A dot on FP8 data of the program's own is as its author wants it.
  auto operands = op->getOpOperands().take_front(2);
  if (!llvm::all_of(ValueRange(op->getOperands().take_front(2)).getTypes(),
                    isScalableTensor))
    return;
  builder.setInsertionPoint(op);
  auto growth = op->getAttrOfType<DenseI64ArrayAttr>(kOperandGrowthAttr);
  for (OpOperand &operand : operands) {
    auto rescale = operand.get().getDefiningOp<RescaleOp>();
    Value data = rescale ? rescale.getData() : operand.get();
    Value scale = rescale ? rescale.getTo() : scales.one();
    if (growth)
      scale = scales.quotient(
          builder, op->getLoc(), scale,
          scales.powerOfTwo(growth[operand.getOperandNumber()]));
    StringAttr rule;
    if (Operation *def = data.getDefiningOp())
      rule = def->getAttrOfType<StringAttr>(kRuleAttr);
    operand.set(SetScaleOp::create(builder, op->getLoc(), data, scale, rule));
  }
}

void ScaleFolder::sinkProduct(Operation *op, bool quotient) {
  Value from[2], to[2];
  for (int i : {0, 1}) {
    auto rescale = op->getOperand(i).getDefiningOp<RescaleOp>();
    from[i] = rescale ? rescale.getFrom() : scales.one();
    to[i] = rescale ? rescale.getTo() : scales.one();
  }
  if (stablehlo::isContraction(op))
    markDotOperands(op);
  builder.setInsertionPoint(op);
  auto combine = [&](Value *x) {
    return quotient ? scales.quotient(builder, op->getLoc(), x[0], x[1])
                    : scales.product(builder, op->getLoc(), x[0], x[1]);
  };
  Value above = combine(from), below = combine(to);
  sink(op, above, below);
}

/// The operand as a true value, which is data of `scale` now.
void ScaleFolder::makeTrue(OpOperand &operand, Value scale) {
  if (!adoptsAnyScale(operand.get()))
    operand.set(scales.rescale(builder, operand.getOwner()->getLoc(),
                               operand.get(), scale, scales.one()));
}

/// Puts the rescale from a true value to data of `scale` below `value`.
void ScaleFolder::makeDataBelow(Value value, Value scale) {
  builder.setInsertionPointAfterValue(value);
  Value below =
      scales.rescale(builder, value.getLoc(), value, scales.one(), scale);
  if (below != value)
    value.replaceAllUsesExcept(below, below.getDefiningOp());
}

/// Values cross the borders of regions true; rescales stay on their sides,
/// where the rest of the folding meets them.
void ScaleFolder::sinkThroughRegions(Operation *op) {
  auto exponents = op->getAttrOfType<DenseI64ArrayAttr>(kCarryScalesAttr);
  if (!exponents)
    return;
  auto getScale = [&](unsigned i) { return scales.powerOfTwo(exponents[i]); };
  if (isa<stablehlo::WhileOp>(op))
    for (OpOperand &operand : op->getOpOperands()) {
      builder.setInsertionPoint(op);
      if (isFloatTensor(operand.get().getType()))
        makeTrue(operand, getScale(operand.getOperandNumber()));
    }
  for (Region &region : op->getRegions()) {
    for (BlockArgument arg : region.getArguments())
      if (isFloatTensor(arg.getType()))
        makeDataBelow(arg, getScale(arg.getArgNumber()));
    visitBlock(region.front());
    Operation *terminator = region.front().getTerminator();
    for (OpOperand &operand : terminator->getOpOperands()) {
      builder.setInsertionPoint(terminator);
      if (isFloatTensor(operand.get().getType()))
        makeTrue(operand, getScale(operand.getOperandNumber()));
    }
  }
  for (OpResult result : op->getResults())
    if (isFloatTensor(result.getType()))
      makeDataBelow(result, getScale(result.getResultNumber()));
}

void ScaleFolder::visit(Operation *op) {
  // Values cross its border true already.
  if (auto manual = dyn_cast<sdy::ManualComputationOp>(op))
    return visitBlock(manual.getBody().front());
  if (stablehlo::isControlFlow(op))
    return sinkThroughRegions(op);
  if (auto rescale = dyn_cast<RescaleOp>(op)) {
    SmallVector<Value, 1> folded;
    builder.setInsertionPoint(op);
    if (adoptsAnyScale(rescale.getData()))
      rescale.replaceAllUsesWith(rescale.getData());
    else if (succeeded(builder.tryFold(op, folded)) && folded.size() == 1)
      rescale.replaceAllUsesWith(folded[0]);
    return;
  }
  auto rule = dyn_cast<ScaleRuleInterface>(op);
  if (!rule || !llvm::any_of(op->getResultTypes(), isFloatTensor))
    return;
  switch (rule.getScaleFamily()) {
  case ScaleFamily::Pass:
  case ScaleFamily::Align:
  case ScaleFamily::Reduce:
    sinkAligned(op);
    return;
  case ScaleFamily::PassEach:
    sinkEach(op);
    return;
  case ScaleFamily::Product:
  case ScaleFamily::Quotient:
    sinkProduct(op, rule.getScaleFamily() == ScaleFamily::Quotient);
    return;
  case ScaleFamily::True:
  case ScaleFamily::Untouched:
  case ScaleFamily::Opaque:
    return;
  }
}

void ScaleFolder::visitBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
    visit(&op);
}

void ScaleFolder::eraseDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    op.removeDiscardableAttr(kAnyScaleAttr);
    op.removeDiscardableAttr(kOperandGrowthAttr);
    if (isOpTriviallyDead(&op))
      op.erase();
    else if (stablehlo::isControlFlow(&op))
      for (Region &region : op.getRegions())
        eraseDead(region.front());
  }
}

void ScaleFolder::run() {
  visitBlock(block);
  eraseDead(block);
}

namespace {
struct FoldScalesPass : scalify::impl::FoldScalesBase<FoldScalesPass> {
  using FoldScalesBase::FoldScalesBase;

  void runOnOperation() override {
    getOperation().walk([&](RescaleOp) { ++numBefore; });
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal() && func.getBody().hasOneBlock())
        ScaleFolder(func).run();
    getOperation().walk([&](RescaleOp) { ++numAfter; });
  }
};
} // namespace
