//===- PlanLoops.cpp - Verification of loops ------------------------------===//

#include "scalify/Dialect/Plan/Plan.h"

using namespace mlir;
using namespace scalify::plan;

/// Checks that either the number of iterations or a condition is given, and
/// that the condition is one i1 among the carries.
template <typename Op> static LogicalResult verifyEnd(Op op) {
  if (op.getTrips().has_value() == op.getCondition().has_value())
    return op.emitOpError("needs either 'trips' or 'while'");
  if (op.getTrips() && static_cast<int64_t>(*op.getTrips()) < 1)
    return op.emitOpError("needs at least one trip");
  if (!op.getCondition())
    return success();
  if (*op.getCondition() >= op.getCarries().size())
    return op.emitOpError("runs while carry ")
           << *op.getCondition() << ", and there are "
           << op.getCarries().size();
  auto type = cast<ShapedType>(op.getCarries()[*op.getCondition()].getType());
  if (!type.getElementType().isInteger(1) || type.getNumElements() != 1)
    return op.emitOpError("runs while a carry of ") << type << ", not one i1";
  return success();
}

LogicalResult LoopOp::verify() { return verifyEnd(*this); }

LogicalResult IterateOp::verify() {
  if (TypeRange(getCarries()) != getResultTypes())
    return emitOpError("has results of other types than its carries");
  return verifyEnd(*this);
}

/// Checks that the program takes the loop's buffers and returns its carries in
/// their memory.
LogicalResult LoopOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto program =
      symbols.lookupNearestSymbolFrom<ProgramOp>(*this, getCalleeAttr());
  if (!program)
    return emitOpError("runs ")
           << getCalleeAttr() << ", which is no plan.program of the module";
  SmallVector<Value> buffers(getCarries());
  llvm::append_range(buffers, getReads());
  SmallVector<bool> isNext(getCarries().size(), false);
  for (Operation &op : program.getBody().front()) {
    if (op.hasAttr(kOffsetAttr))
      continue;
    if (auto argument = dyn_cast<ArgumentOp>(op)) {
      if (argument.getIndex() >= buffers.size())
        return emitOpError("has no operand for argument ")
               << argument.getIndex() << " of " << getCalleeAttr();
      Value own = buffers[argument.getIndex()];
      if (bufferBytes(own) != bufferBytes(argument.getMemory()))
        return emitOpError("passes ")
               << own.getType() << " as argument " << argument.getIndex()
               << " of " << getCalleeAttr() << ", which is "
               << argument.getMemory().getType();
    }
    if (auto result = dyn_cast<ResultOp>(op)) {
      if (result.getIndex() >= isNext.size() ||
          result.getAliasArg() != result.getIndex())
        return emitOpError("needs each result of ")
               << getCalleeAttr() << " in the memory of its carry";
      isNext[result.getIndex()] = true;
    }
  }
  if (!llvm::all_of(isNext, [](bool is) { return is; }))
    return emitOpError("has more carries than ")
           << getCalleeAttr() << " has results";
  return success();
}
