//===- CastNames.cpp - The value and the name of each cast ----------------===//

#include "CastNames.h"

#include "DotDecisions.h"
#include "PlainForm.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Precision/DotRoles.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace scalify;

/// Returns the stack if `root` is a loop's slice of a value from outside of the
/// loop; null for other values, and for stacks that another loop writes.
static Value getSlicedStack(Value root) {
  auto slice = root.getDefiningOp<stablehlo::DynamicSliceOp>();
  if (!slice)
    return {};
  Value stack = getDotOperandRoot(slice.getOperand());
  bool isOutside =
      stack.getParentRegion()->isProperAncestor(slice->getParentRegion());
  return isOutside && !stack.getDefiningOp<stablehlo::WhileOp>() ? stack
                                                                 : Value();
}

static unsigned countLoops(Operation *op, Region *outside) {
  unsigned loops = 0;
  for (; op->getParentRegion() != outside; op = op->getParentOp())
    loops += isa<stablehlo::WhileOp>(op->getParentOp());
  return loops;
}

void scalify::markWholeStacks(ArrayRef<Operation *> dots) {
  struct Stack {
    SmallVector<Operation *> slices;
    std::optional<int64_t> exponent;
    bool hasOneScale = true, isReadAgain = false;
  };
  llvm::MapVector<Value, Stack> stacks;
  auto add = [&](Value operand, std::optional<int64_t> exponent) {
    Value root = getDotOperandRoot(operand);
    Value stack = getSlicedStack(root);
    if (!stack)
      return;
    Operation *slice = root.getDefiningOp();
    Stack &entry = stacks[stack];
    if (entry.slices.empty())
      entry.exponent = exponent;
    entry.hasOneScale &= exponent && exponent == entry.exponent;
    entry.isReadAgain |= countLoops(slice, stack.getParentRegion()) > 1;
    if (!llvm::is_contained(entry.slices, slice))
      entry.slices.push_back(slice);
  };
  for (Operation *dot : dots)
    for (unsigned i : {0, 1})
      add(dot->getOperand(i), getOperandExponent(dot, i));
  for (auto &[stack, entry] : stacks)
    if (entry.hasOneScale && (entry.isReadAgain || entry.slices.size() > 1))
      for (Operation *slice : entry.slices)
        slice->setAttr(kWholeStackAttr, UnitAttr::get(slice->getContext()));
}

Value scalify::getCastRoot(Value operand, Attribute block) {
  if (block)
    return lookThrough(operand, Move::Invariant);
  Value root = getDotOperandRoot(operand);
  Operation *def = root.getDefiningOp();
  return def && def->hasAttr(kWholeStackAttr) ? getSlicedStack(root) : root;
}

static std::string describe(Value root, unsigned number) {
  std::string text = "c" + std::to_string(number) + ": ";
  if (auto arg = dyn_cast<BlockArgument>(root)) {
    bool isCarry = !isa<FunctionOpInterface>(arg.getOwner()->getParentOp());
    return text + (isCarry ? "carry" + std::to_string(arg.getArgNumber())
                           : getArgumentName(arg));
  }
  return text + root.getDefiningOp()->getName().stripDialect().str();
}

std::string CastNames::getName(Value root, Type format, Attribute kind,
                               Value key) {
  unsigned number = numbers.size();
  return describe(
      isa_and_present<DenseI64ArrayAttr>(kind) ? getDotOperandRoot(root) : root,
      numbers.try_emplace({{key ? key : root, format}, kind}, number)
          .first->second);
}

DecisionAttr CastNames::getReasonToStayWide(Value operand, Type format,
                                            DenseI64ArrayAttr block,
                                            Attribute kind) {
  Value root = getCastRoot(operand, block);
  std::string name = getName(root, format, kind);
  std::string reason = wideCasts.match(name, root);
  if (reason.empty())
    return {};
  return DecisionAttr::get(operand.getContext(), "health", reason);
}
