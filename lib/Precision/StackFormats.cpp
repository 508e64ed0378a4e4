//===- StackFormats.cpp - Stacks of what loops save, in narrow data -------===//
//
// The forward of a scan stacks its activations, and the backward slices them
// and casts each slice, to the bits that the forward had already. Where nothing
// else reads the stack, it holds the narrow data: a byte per element, and no
// second cast. The type changes along the stack's whole way, from the zeros it
// starts from through loops that carry it unchanged to the slices.
//
//===----------------------------------------------------------------------===//

#include "StorageFormats.h"

#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Scaling/ScaleArithmetic.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;
using stablehlo::WhileOp;

/// Ops whose result is data of their first operand and nothing else.
static bool isMove(Operation *op) {
  return isa<stablehlo::DynamicSliceOp, stablehlo::SliceOp,
             stablehlo::ReshapeOp, stablehlo::TransposeOp, stablehlo::ReverseOp,
             stablehlo::BroadcastInDimOp>(op);
}

static void setElementType(Value value, Type element) {
  value.setType(cast<RankedTensorType>(value.getType()).clone(element));
}

namespace {
/// A stack that one loop writes, and all that holds its data.
class SavedStack {
public:
  SavedStack(WhileOp loop, unsigned index) : loop(loop), index(index) {}

  /// Follows the stack to its casts; fails where something else reads it, or
  /// the casts differ.
  LogicalResult collect();
  void narrow();

private:
  LogicalResult follow(OpOperand &use);
  LogicalResult addCast(QuantizeOp quantize);
  Value getNarrowUpdate(Value update);

  WhileOp loop;
  unsigned index;
  llvm::SetVector<Value> held;
  llvm::SetVector<Operation *> casts;
};
} // namespace

LogicalResult SavedStack::addCast(QuantizeOp quantize) {
  if (!casts.empty()) {
    auto first = cast<QuantizeOp>(casts.front());
    if (getElementTypeOrSelf(first.getType()) !=
            getElementTypeOrSelf(quantize.getType()) ||
        !isSameScale(first.getScale(), quantize.getScale()))
      return failure();
  }
  casts.insert(quantize);
  return success(getConstantScale(quantize.getScale()).has_value());
}

LogicalResult SavedStack::follow(OpOperand &use) {
  Operation *user = use.getOwner();
  unsigned number = use.getOperandNumber();
  if (auto quantize = dyn_cast<QuantizeOp>(user))
    return number == 0 ? addCast(quantize) : failure();
  if (isMove(user) && number == 0) {
    held.insert(user->getResult(0));
    return success();
  }
  if (auto reader = dyn_cast<WhileOp>(user)) {
    if (!stablehlo::isInvariantCarry(reader, number))
      return failure();
    held.insert(reader.getBody().getArgument(number));
    held.insert(reader.getCond().getArgument(number));
    held.insert(reader.getResult(number));
    return success();
  }
  // A body returns it as it came.
  return success(
      isa<stablehlo::ReturnOp>(user) && isa<WhileOp>(user->getParentOp()) &&
      held.contains(user->getParentRegion()->getArgument(number)) &&
      user->getOperand(number) == user->getParentRegion()->getArgument(number));
}

LogicalResult SavedStack::collect() {
  Value update = stablehlo::getStackedUpdate(loop, index);
  SplatElementsAttr start;
  if (!update || !matchPattern(loop->getOperand(index), m_Constant(&start)) ||
      !isa<FloatType>(start.getElementType()) ||
      !start.getSplatValue<APFloat>().isPosZero() ||
      !loop.getCond().getArgument(index).use_empty())
    return failure();
  held.insert(loop.getResult(index));
  for (size_t i = 0; i < held.size(); ++i)
    for (OpOperand &use : held[i].getUses())
      if (failed(follow(use)))
        return failure();
  return success(!casts.empty());
}

/// The update made of narrow data: of the cast that the body has already, if it
/// is the same, behind the moves that put it on the stack.
Value SavedStack::getNarrowUpdate(Value update) {
  auto reader = cast<QuantizeOp>(casts.front());
  Type format = getElementTypeOrSelf(reader.getType());
  SmallVector<Operation *> moves;
  Value source = update, data;
  while (!data) {
    for (Operation *user : source.getUsers()) {
      auto quantize = dyn_cast<QuantizeOp>(user);
      if (quantize && quantize->getBlock() == source.getParentBlock() &&
          getElementTypeOrSelf(quantize.getType()) == format &&
          isSameScale(quantize.getScale(), reader.getScale()))
        data = quantize;
    }
    Operation *def = source.getDefiningOp();
    if (data || !def || !isMove(def) ||
        def->getParentRegion() != &loop.getBody())
      break;
    moves.push_back(def);
    source = def->getOperand(0);
  }
  OpBuilder builder(loop.getBody().front().getTerminator());
  if (!data) {
    // The forward's dots do not read it; the backward's cast moves here.
    builder.setInsertionPointAfterValue(update);
    IRMapping mapping;
    Operation *clone = builder.clone(*reader, mapping);
    clone->setOperand(0, update);
    clone->getResult(0).setType(
        cast<RankedTensorType>(update.getType()).clone(format));
    return clone->getResult(0);
  }
  for (Operation *op : llvm::reverse(moves)) {
    builder.setInsertionPointAfter(op);
    if (Operation *def = data.getDefiningOp();
        def && def->getBlock() == op->getBlock() && op->isBeforeInBlock(def))
      builder.setInsertionPointAfter(def);
    IRMapping mapping;
    mapping.map(op->getOperand(0), data);
    Operation *clone = builder.clone(*op, mapping);
    clone->removeAttr(kScaleAttr);
    clone->removeAttr(kRuleAttr);
    data = clone->getResult(0);
    setElementType(data, format);
  }
  return data;
}

void SavedStack::narrow() {
  Type format = getElementTypeOrSelf(cast<QuantizeOp>(casts.front()).getType());
  Block &body = loop.getBody().front();
  auto write = body.getTerminator()
                   ->getOperand(index)
                   .getDefiningOp<stablehlo::DynamicUpdateSliceOp>();
  Value update = getNarrowUpdate(write.getUpdate());
  write.getUpdateMutable().assign(update);
  if (Operation *def = update.getDefiningOp();
      def && def->getBlock() == write->getBlock() &&
      write->isBeforeInBlock(def))
    write->moveAfter(def);
  write->removeAttr(kScaleAttr);
  write->removeAttr(kRuleAttr);
  OpBuilder builder(loop);
  auto type =
      cast<RankedTensorType>(loop.getResult(index).getType()).clone(format);
  loop->setOperand(index, stablehlo::ConstantOp::create(
                              builder, loop.getLoc(),
                              cast<ElementsAttr>(builder.getZeroAttr(type))));
  for (Value value : {Value(body.getArgument(index)), Value(write.getResult()),
                      Value(loop.getCond().getArgument(index))})
    value.setType(type);
  for (Value value : held) {
    setElementType(value, format);
    if (Operation *def = value.getDefiningOp(); def && isMove(def)) {
      def->removeAttr(kScaleAttr);
      def->removeAttr(kRuleAttr);
    }
  }
  for (Operation *op : casts) {
    auto quantize = cast<QuantizeOp>(op);
    quantize.getResult().replaceAllUsesWith(quantize.getValue());
    quantize.erase();
  }
}

unsigned scalify::narrowStacks(func::FuncOp func) {
  unsigned count = 0;
  func.walk([&](WhileOp loop) {
    for (unsigned i = 0; i < loop.getNumResults(); ++i) {
      SavedStack stack(loop, i);
      if (failed(stack.collect()))
        continue;
      stack.narrow();
      ++count;
    }
  });
  return count;
}
