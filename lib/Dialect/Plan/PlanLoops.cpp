//===- PlanLoops.cpp - Verification of loops ------------------------------===//

#include "scalify/Dialect/Plan/Plan.h"

#include <map>

using namespace mlir;
using namespace scalify::plan;

/// Checks that either the number of iterations or a condition is given, that
/// the condition is one i1 among the carries, and that slices are of operands.
template <typename Op> static LogicalResult verifyEnd(Op op) {
  if (op.getTrips().has_value() == op.getCondition().has_value())
    return op.emitOpError("needs either 'trips' or 'while'");
  if (op.getTrips() && static_cast<int64_t>(*op.getTrips()) < 1)
    return op.emitOpError("needs at least one trip");
  ArrayRef<int64_t> slices = op.getSlices().value_or(ArrayRef<int64_t>());
  if (slices.size() % kSliceNumbers != 0)
    return op.emitOpError("needs ") << kSliceNumbers << " numbers a slice";
  for (; !slices.empty(); slices = slices.drop_front(kSliceNumbers))
    if (slices.front() < 0 || slices[kSliceNumbers - 1] < 0 ||
        slices.front() >=
            int64_t(op.getCarries().size() + op.getReads().size()))
      return op.emitOpError("has a slice of operand ")
             << slices.front() << " up to byte " << slices[kSliceNumbers - 1];
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
  std::map<uint64_t, int64_t> lastPlaces;
  ArrayRef<int64_t> slices = getSlices().value_or(ArrayRef<int64_t>());
  for (; !slices.empty(); slices = slices.drop_front(kSliceNumbers))
    lastPlaces[slices.front()] = slices[kSliceNumbers - 1];
  SmallVector<bool> isNext(getCarries().size(), false);
  for (Operation &op : program.getBody().front()) {
    if (op.hasAttr(kOffsetAttr))
      continue;
    if (auto argument = dyn_cast<ArgumentOp>(op)) {
      uint64_t index = argument.getIndex();
      if (index >= buffers.size())
        return emitOpError("has no operand for argument ")
               << index << " of " << getCalleeAttr();
      Value own = buffers[index];
      auto last = lastPlaces.find(index);
      int64_t offset = last == lastPlaces.end() ? 0 : last->second;
      if (offset + bufferBytes(argument.getMemory()) != bufferBytes(own))
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
