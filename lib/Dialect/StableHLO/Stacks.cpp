//===- Stacks.cpp - Stacks of layers, and sums of their elements ----------===//

#include "scalify/Dialect/StableHLO/Stacks.h"

#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/Reductions.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// The largest chunk of a sum, and the minimum number of smaller chunks, so
/// that many ranks can have equal numbers of them.
static constexpr int64_t kMaxChunk = 4096, kMinChunks = 64;

DynamicUpdateSliceOp stablehlo::getSliceUpdate(WhileOp loop, unsigned index) {
  Value update = getStackedUpdate(loop, index);
  if (!update || typeOf(update).getRank() < 2 ||
      typeOf(update).getDimSize(0) != 1 ||
      typeOf(update).getShape().drop_front() !=
          typeOf(loop->getResult(index)).getShape().drop_front())
    return {};
  return loop.getBody()
      .front()
      .getTerminator()
      ->getOperand(index)
      .getDefiningOp<DynamicUpdateSliceOp>();
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

using ShapePair = std::array<SmallVector<int64_t>, 2>;

/// Returns the shapes before and after each reshape that results, and sums of
/// their elements, go through element by element.
static SmallVector<ShapePair> findReshapes(func::FuncOp main) {
  Block &block = main.getBody().front();
  llvm::SetVector<Value> values(block.getTerminator()->operand_begin(),
                                block.getTerminator()->operand_end());
  for (auto reduce : block.getOps<ReduceOp>())
    values.insert(reduce.getInputs().begin(), reduce.getInputs().end());
  SmallVector<ShapePair> pairs;
  for (size_t next = 0; next < values.size(); ++next) {
    Operation *op = values[next].getDefiningOp();
    auto reshape = dyn_cast_or_null<ReshapeOp>(op);
    if (reshape)
      pairs.push_back({llvm::to_vector(typeOf(reshape.getOperand()).getShape()),
                       llvm::to_vector(typeOf(reshape).getShape())});
    if (isa_and_present<ReshapeOp, AllReduceOp>(op) ||
        (op && isElementwiseOp(op)))
      values.insert(op->operand_begin(), op->operand_end());
  }
  return pairs;
}

/// Updates and norms may reshape their operands, element by element. A shape
/// with the slices of a stack is processed like the stack. If another shape is
/// read, neither is: their pieces differ, and a sum of them would be exchanged
/// twice.
static void propagateReshapes(ArrayRef<ShapePair> pairs, StackShapes &stacks) {
  auto forEachBorder = [&](auto visit) {
    bool isNew = true;
    while (std::exchange(isNew, false))
      for (auto &[from, to] : pairs)
        if (stacks.count(from) != stacks.count(to))
          isNew |= stacks.count(from) ? visit(from, to) : visit(to, from);
  };
  forEachBorder([&](ArrayRef<int64_t> stack, ArrayRef<int64_t> other) {
    bool hasSlices = other.size() > 1 && other.front() == stack.front();
    return hasSlices && stacks.insert(llvm::to_vector(other)).second;
  });
  forEachBorder([&](ArrayRef<int64_t> stack, ArrayRef<int64_t>) {
    return stacks.erase(llvm::to_vector(stack)) > 0;
  });
}

StackShapes stablehlo::findStackShapes(func::FuncOp main) {
  StackShapes stacks;
  main.walk([&](WhileOp loop) {
    for (OpResult result : loop->getResults())
      if (getSliceUpdate(loop, result.getResultNumber()))
        stacks.insert(llvm::to_vector(typeOf(result).getShape()));
  });
  if (!stacks.empty())
    propagateReshapes(findReshapes(main), stacks);
  return stacks;
}

ArrayRef<int64_t> stablehlo::getSlices(const StackShapes &stacks,
                                       RankedTensorType type) {
  ArrayRef<int64_t> shape = type.getShape();
  bool isStack = stacks.count(SmallVector<int64_t>(shape)) > 0;
  return shape.take_front(isStack ? 1 : 0);
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

Value stablehlo::padSlices(OpBuilder &builder, Location loc, Value value,
                           ArrayRef<int64_t> slices, int64_t size) {
  RankedTensorType type = typeOf(value);
  Type element = type.getElementType();
  int64_t each = type.getNumElements() / llvm::product_of(slices);
  SmallVector<int64_t> shape(slices);
  shape.push_back(each);
  Value flat = value;
  if (type.getShape() != ArrayRef(shape))
    flat = ReshapeOp::create(builder, loc, value, shape);
  if (each == size)
    return flat;
  Value zero = buildZero(builder, loc, element);
  SmallVector<int64_t> none(shape.size(), 0), high(none);
  high.back() = size - each;
  return PadOp::create(builder, loc, flat, zero, none, high, none);
}

int64_t stablehlo::getChunkSize(int64_t elements) {
  auto wanted = static_cast<uint64_t>(
      std::clamp<int64_t>(elements / kMinChunks, 1, kMaxChunk));
  return static_cast<int64_t>(llvm::bit_floor(wanted));
}

bool stablehlo::isFullSum(ReduceOp reduce) {
  return reduce.getInputs().size() == 1 &&
         isa<AddOp>(reduce.getBody().front().front()) &&
         hasNeutralInit(reduce) &&
         static_cast<int64_t>(reduce.getDimensions().size()) ==
             typeOf(reduce.getInputs()[0]).getRank() &&
         isa<FloatType>(typeOf(reduce.getInputs()[0]).getElementType());
}
