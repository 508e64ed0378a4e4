//===- StackFormats.cpp - Narrow the stacks that loops save ---------------===//
//
// The forward of a scan stacks its activations, and the backward slices the
// stack and casts each slice, to the bits that the forward's cast had already.
// If nothing else reads the stack, it holds the narrow data: a byte per
// element, and no second cast. If the recipe has a format for saved values,
// other readers dequantize from that. The type changes along the stack's whole
// path, from the initial zeros through invariant carries to the slices.
//
//===----------------------------------------------------------------------===//

#include "SolverLoops.h"
#include "StorageFormats.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Scaling/ScaleArithmetic.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using stablehlo::WhileOp;

/// True if the result holds data of the first operand and nothing else.
static bool isMove(Operation *op) {
  return isa<stablehlo::DynamicSliceOp, stablehlo::SliceOp,
             stablehlo::ReshapeOp, stablehlo::TransposeOp, stablehlo::ReverseOp,
             stablehlo::BroadcastInDimOp>(op);
}

/// True for moves that keep all elements: a body stacks their results whole.
static bool isWholeMove(Operation *op) {
  return isMove(op) && !isa<stablehlo::DynamicSliceOp, stablehlo::SliceOp>(op);
}

static void setElementType(Value value, Type element) {
  value.setType(cast<RankedTensorType>(value.getType()).clone(element));
}

namespace {
/// A stack that one loop writes, and all values that hold its data.
class SavedStack {
public:
  SavedStack(WhileOp loop, unsigned index, Caster &caster)
      : loop(loop), index(index), caster(caster) {}

  /// Follows the stack to its casts. Fails if anything else reads it, or if the
  /// casts differ. With a format `saved`, backward ops may read it.
  LogicalResult collect(Type saved);
  void narrow();

private:
  LogicalResult follow(OpOperand &use);
  LogicalResult addCast(QuantizeOp quantize);
  LogicalResult useSavedFormat();
  bool hasOtherCast(Value source) const;
  Value getNarrowUpdate(Value update);
  void widenReaders();

  WhileOp loop;
  unsigned index;
  Caster &caster;
  Type saved;
  llvm::SetVector<Value> held;
  llvm::SetVector<Operation *> casts;
  SmallVector<OpOperand *> readers;
  Type format;
  Value scale;
};
} // namespace

LogicalResult SavedStack::addCast(QuantizeOp quantize) {
  Type element = getElementTypeOrSelf(quantize.getType());
  if (!format) {
    format = element;
    scale = quantize.getScale();
  }
  casts.insert(quantize);
  return success(element == format && isSameScale(scale, quantize.getScale()) &&
                 getConstantScale(scale).has_value());
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
  if (isa<stablehlo::ReturnOp>(user)) {
    // The body must return the carry unchanged.
    auto reader = dyn_cast<WhileOp>(user->getParentOp());
    return success(reader && user->getParentRegion() == &reader.getBody() &&
                   user->getOperand(number) ==
                       reader.getBody().getArgument(number));
  }
  bool isBackward = getPhase(user) != Phase::Forward;
  if (!saved || !isBackward || use.get() == loop.getResult(index) ||
      user->getNumResults() != 1 || stablehlo::isControlFlow(user) ||
      stablehlo::isContraction(user) ||
      isa<stablehlo::CompareOp, stablehlo::OptimizationBarrierOp>(user) ||
      user->hasTrait<OpTrait::IsTerminator>())
    return failure();
  readers.push_back(&use);
  return success();
}

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

/// True for results of reductions, and for values computed from these alone.
static bool isStatistic(Value value, unsigned depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return false;
  if (isa<stablehlo::ReduceOp>(op))
    return true;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return !isFloat(operand) ||
           cast<ShapedType>(operand.getType()).getRank() == 0 ||
           isStatistic(operand, depth - 1);
  });
}

/// Sets the format and the scale for a stack that backward ops read.
LogicalResult SavedStack::useSavedFormat() {
  Value source = stablehlo::getStackedUpdate(loop, index);
  Operation *root = source.getDefiningOp();
  while (root && isWholeMove(root)) {
    source = root->getOperand(0);
    root = source.getDefiningOp();
  }
  if (!root || root->getParentRegion() != &loop.getBody())
    return failure();
  auto exponent = root->getAttrOfType<IntegerAttr>(kScaleAttr);
  if (!exponent || root->getNumResults() != 1 ||
      getPhase(root) != Phase::Forward || isStatistic(source, 16) ||
      !getElementTypeOrSelf(source.getType()).isF32() ||
      llvm::any_of(source.getUsers(), llvm::IsaPred<stablehlo::CompareOp>))
    return failure();
  // An earlier run may have found that the cast clips.
  if (caster.getReasonToStayWide(source, saved))
    return failure();
  if (format)
    return success(format == saved);
  format = saved;
  scale = caster.makeConstant(
      std::ldexp(1.0f, static_cast<int>(exponent.getInt())));
  return success();
}

LogicalResult SavedStack::collect(Type savedFormat) {
  saved = savedFormat;
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
  if (readers.empty() ? casts.empty() : failed(useSavedFormat()))
    return failure();
  return success(!hasOtherCast(update));
}

/// True if the body casts the stacked value to the format by another scale.
bool SavedStack::hasOtherCast(Value source) const {
  for (Operation *user : source.getUsers())
    if (auto quantize = dyn_cast<QuantizeOp>(user);
        quantize && getElementTypeOrSelf(quantize.getType()) == format &&
        !isSameScale(quantize.getScale(), scale))
      return true;
  Operation *def = source.getDefiningOp();
  return def && isWholeMove(def) && hasOtherCast(def->getOperand(0));
}

/// Returns the update as narrow data, from an identical cast in the body if
/// there is one. Clones the moves between the cast and the update.
Value SavedStack::getNarrowUpdate(Value update) {
  SmallVector<Operation *> moves;
  Value source = update, data;
  while (!data) {
    for (Operation *user : source.getUsers()) {
      auto quantize = dyn_cast<QuantizeOp>(user);
      if (quantize && quantize->getBlock() == source.getParentBlock() &&
          getElementTypeOrSelf(quantize.getType()) == format &&
          isSameScale(quantize.getScale(), scale))
        data = quantize;
    }
    Operation *def = source.getDefiningOp();
    if (data || !def || !isWholeMove(def) ||
        def->getParentRegion() != &loop.getBody())
      break;
    moves.push_back(def);
    source = def->getOperand(0);
  }
  OpBuilder builder(loop.getBody().front().getTerminator());
  // No dot of the forward reads the value, so it is not cast yet.
  if (!data) {
    auto known = casts.empty() ? QuantizeOp() : cast<QuantizeOp>(casts.front());
    StringAttr rule =
        known ? known->getAttrOfType<StringAttr>(kRuleAttr) : StringAttr();
    data = caster.castData(source, {scale, rule}, format);
  }
  for (Operation *op : llvm::reverse(moves)) {
    builder.setInsertionPointAfter(op);
    if (Operation *def = data.getDefiningOp();
        def && def->getBlock() == op->getBlock() && op->isBeforeInBlock(def))
      builder.setInsertionPointAfter(def);
    IRMapping mapping;
    mapping.map(op->getOperand(0), data);
    Operation *clone = builder.clone(*op, mapping);
    eraseScale(clone);
    data = clone->getResult(0);
    setElementType(data, format);
  }
  return data;
}

void SavedStack::narrow() {
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
  eraseScale(write);
  OpBuilder builder(loop);
  auto type =
      cast<RankedTensorType>(loop.getResult(index).getType()).clone(format);
  loop->setOperand(index, stablehlo::buildZeros(builder, loop.getLoc(), type));
  for (Value value : {Value(body.getArgument(index)), Value(write.getResult()),
                      Value(loop.getCond().getArgument(index))})
    value.setType(type);
  for (Value value : held) {
    setElementType(value, format);
    if (Operation *def = value.getDefiningOp(); def && isMove(def)) {
      eraseScale(def);
    }
  }
  for (Operation *op : casts) {
    auto quantize = cast<QuantizeOp>(op);
    quantize.getResult().replaceAllUsesWith(quantize.getValue());
    quantize.erase();
  }
  widenReaders();
}

void SavedStack::widenReaders() {
  llvm::MapVector<std::pair<Value, Block *>, Value> wide;
  for (OpOperand *use : readers) {
    Operation *user = use->getOwner();
    Value &entry = wide[{use->get(), user->getBlock()}];
    if (!entry) {
      OpBuilder builder(user);
      builder.setInsertionPointAfterValue(use->get());
      auto type = cast<RankedTensorType>(use->get().getType());
      auto dequantize = DequantizeOp::create(builder, user->getLoc(),
                                             type.clone(builder.getF32Type()),
                                             use->get(), scale);
      copyPhase(user, dequantize);
      entry = dequantize;
    }
    use->set(entry);
  }
}

unsigned scalify::narrowStacks(func::FuncOp func, RecipeAttr recipe,
                               Caster &caster) {
  unsigned count = 0;
  bool isPropagated = recipe.getScales() == ScaleSource::Propagated;
  Type saved = isPropagated ? recipe.getStorage().saved : Type();
  // Narrowing erases casts after the loop, which would invalidate a walk.
  SmallVector<WhileOp> loops;
  func.walk([&](WhileOp loop) { loops.push_back(loop); });
  for (WhileOp loop : loops) {
    Type own = hasSolver(loop) ? Type() : saved;
    for (unsigned i = 0; i < loop.getNumResults(); ++i) {
      SavedStack stack(loop, i, caster);
      if (failed(stack.collect(own)))
        continue;
      stack.narrow();
      ++count;
    }
  }
  return count;
}
