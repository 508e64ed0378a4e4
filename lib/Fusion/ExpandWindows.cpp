//===- ExpandWindows.cpp - Reductions of windows as reductions ------------===//

#include "TensorBuilder.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Fusion/Passes.h"

#include "mlir/IR/IRMapping.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDWINDOWS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using stablehlo::WindowDim;

// Cumulative reductions of more elements go by doubling steps: n * log2(n)
// instead of n * n.
static constexpr int64_t kLongWindow = 64;
// Comparisons written out for an element of a pool's gradient.
static constexpr int64_t kLargestPool = 256;

/// The one dimension along which a window reduces all that comes before, or all
/// that comes after; -1 for other windows.
static int64_t getCumulativeDim(Value input, ArrayRef<WindowDim> window) {
  int64_t found = -1;
  for (auto [d, dim] : llvm::enumerate(window)) {
    bool isPlain = dim.stride == 1 && dim.baseDilation == 1;
    if (dim.size == 1 && isPlain && dim.low == 0 && dim.high == 0)
      continue;
    int64_t rest = dim.size - 1;
    if (found >= 0 || !isPlain || dim.windowDilation != 1 ||
        dim.size != typeOf(input).getDimSize(d) ||
        !((dim.low == rest && dim.high == 0) ||
          (dim.high == rest && dim.low == 0)))
      return -1;
    found = static_cast<int64_t>(d);
  }
  return found;
}

/// After k steps an element holds the 2^k that end there.
static LogicalResult accumulate(stablehlo::ReduceWindowOp op, int64_t dim,
                                bool isReverse) {
  TensorBuilder b(op);
  SmallVector<Value> values(op.getInputs());
  int64_t size = typeOf(values.front()).getDimSize(dim);
  SmallVector<int64_t> zeros(typeOf(values.front()).getRank(), 0);
  for (int64_t step = 1; step < size; step *= 2) {
    SmallVector<int64_t> low(zeros), high(zeros);
    low[dim] = isReverse ? -step : step;
    high[dim] = -low[dim];
    SmallVector<Value> earlier, later(values);
    for (auto [value, init] : llvm::zip(values, op.getInitValues()))
      earlier.push_back(b.pad(value, init, low, high, zeros));
    if (isReverse)
      std::swap(earlier, later);
    llvm::append_range(earlier, later);
    auto joined = b.elementwise(op, op.getBody(), earlier);
    if (failed(joined))
      return failure();
    values.assign(joined->begin(), joined->end());
    // Recomputed where it is read, it would double with each step.
    for (Value value : values)
      if (Operation *made = value.getDefiningOp())
        made->setAttr("plan.materialise", b.ops.getUnitAttr());
  }
  op.replaceAllUsesWith(values);
  op.erase();
  return success();
}

static LogicalResult expand(stablehlo::ReduceWindowOp op) {
  auto window = stablehlo::readWindow(
      op, {op.getWindowDimensions(), op.getWindowStrides(), op.getPadding(),
           op.getBaseDilations(), op.getWindowDilations()});
  if (failed(window))
    return failure();
  int64_t dim = getCumulativeDim(op.getInputs().front(), *window);
  if (dim >= 0 && (*window)[dim].size > kLongWindow)
    return accumulate(op, dim, (*window)[dim].high > 0);
  TensorBuilder b(op);
  SmallVector<Value> inputs;
  for (auto [input, init] : llvm::zip(op.getInputs(), op.getInitValues()))
    inputs.push_back(b.windows(input, init, *window));
  SmallVector<int64_t> dims;
  for (int64_t d = window->size(); d < typeOf(inputs.front()).getRank(); ++d)
    dims.push_back(d);
  if (dims.empty())
    dims.push_back(typeOf(inputs.front()).getRank());
  for (Value &input : inputs)
    if (dims.front() == typeOf(input).getRank()) {
      SmallVector<int64_t> shape(typeOf(input).getShape());
      shape.push_back(1);
      input = b.reshape(input, shape);
    }
  auto reduce = stablehlo::ReduceOp::create(b.ops, op.getResultTypes(), inputs,
                                            op.getInitValues(), dims);
  reduce.getBody().takeBody(op.getBody());
  op.replaceAllUsesWith(reduce.getResults());
  op.erase();
  return success();
}

namespace {
/// A pool's gradient: of each window the selected element gets the source.
class PoolGradient {
public:
  PoolGradient(stablehlo::SelectAndScatterOp op, ArrayRef<WindowDim> window)
      : op(op), window(window), b(op),
        element(typeOf(op.getOperand()).getElementType()) {}

  LogicalResult run();

private:
  /// Of an element of the window, given by its places in it.
  Value elementAt(Value windows, ArrayRef<int64_t> places);
  LogicalResult select(Value windows, Value isInside);
  Value spread(ArrayRef<int64_t> places, int64_t number);

  stablehlo::SelectAndScatterOp op;
  ArrayRef<WindowDim> window;
  TensorBuilder b;
  Type element;
  SmallVector<SmallVector<int64_t>> elements; // of a window, in order
  Value chosen;                               // number of the one selected
};
} // namespace

Value PoolGradient::elementAt(Value windows, ArrayRef<int64_t> places) {
  int64_t rank = window.size();
  for (auto [dim, place] : llvm::zip(window, places))
    if (dim.size > 1)
      windows = b.at(windows, rank, place);
  return windows;
}

LogicalResult PoolGradient::select(Value windows, Value isInside) {
  Value best = elementAt(windows, elements.front()), hasBest;
  if (isInside)
    hasBest = elementAt(isInside, elements.front());
  ArrayRef<int64_t> shape = typeOf(best).getShape();
  Type i32 = b.ops.getI32Type();
  chosen = b.constant(0, i32, shape);
  for (size_t number = 1; number < elements.size(); ++number) {
    Value next = elementAt(windows, elements[number]);
    auto keeps = b.elementwise(op, op.getSelect(), {best, next});
    if (failed(keeps))
      return failure();
    Value keep = (*keeps)[0];
    if (isInside) {
      // What is outside of the operand is never selected.
      Value isThere = elementAt(isInside, elements[number]);
      keep = b.make<stablehlo::AndOp>({hasBest, keep});
      keep =
          b.make<stablehlo::OrOp>({keep, b.make<stablehlo::NotOp>({isThere})});
      hasBest = b.make<stablehlo::OrOp>({hasBest, isThere});
    }
    best = b.make<stablehlo::SelectOp>({keep, best, next});
    chosen = b.make<stablehlo::SelectOp>(
        {keep, chosen, b.constant(static_cast<int64_t>(number), i32, shape)});
  }
  chosen.getDefiningOp()->setAttr("plan.materialise", b.ops.getUnitAttr());
  return success();
}

/// The source where the element with this number is the selected one, at the
/// element's places.
Value PoolGradient::spread(ArrayRef<int64_t> places, int64_t number) {
  Value source = op.getSource();
  ArrayRef<int64_t> shape = typeOf(source).getShape();
  Value isChosen =
      b.compare(chosen, b.constant(number, b.ops.getI32Type(), shape),
                stablehlo::ComparisonDirection::EQ);
  Value part = b.make<stablehlo::SelectOp>(
      {isChosen, source, b.constant(0, element, shape)});
  SmallVector<int64_t> low, high, interior;
  for (auto [dim, place, count, size] :
       llvm::zip(window, places, shape, typeOf(op.getOperand()).getShape())) {
    low.push_back(place - dim.low);
    high.push_back(size - low.back() - ((count - 1) * dim.stride + 1));
    interior.push_back(dim.stride - 1);
  }
  return b.pad(part, b.constant(0, element, {}), low, high, interior);
}

LogicalResult PoolGradient::run() {
  if (!stablehlo::isSum(op.getScatter()))
    return op.emitOpError("not in an executable: it scatters by something else "
                          "than a sum");
  elements.push_back({});
  for (const WindowDim &dim : window) {
    SmallVector<SmallVector<int64_t>> longer;
    for (const auto &places : elements)
      for (int64_t place = 0; place < dim.size; ++place) {
        longer.push_back(places);
        longer.back().push_back(place);
      }
    elements = std::move(longer);
    if (int64_t(elements.size()) > kLargestPool)
      return op.emitOpError("not in an executable: windows of more than ")
             << kLargestPool << " elements";
  }
  Value isInside;
  ArrayRef<int64_t> shape = typeOf(op.getOperand()).getShape();
  if (llvm::any_of(window, [](const WindowDim &dim) {
        return dim.low != 0 || dim.high != 0;
      })) {
    Type i1 = b.ops.getI1Type();
    isInside =
        b.windows(b.constant(1, i1, shape), b.constant(0, i1, {}), window);
  }
  Value windows =
      b.windows(op.getOperand(), b.constant(0, element, {}), window);
  if (failed(select(windows, isInside)))
    return failure();
  Value total = b.broadcast(op.getInitValue(), shape, {});
  for (auto [number, places] : llvm::enumerate(elements))
    total = b.make<stablehlo::AddOp>(
        {total, spread(places, static_cast<int64_t>(number))});
  op.replaceAllUsesWith(total);
  op.erase();
  return success();
}

static LogicalResult expand(stablehlo::SelectAndScatterOp op) {
  SmallVector<int64_t> sizes(typeOf(op.getOperand()).getRank(), 1);
  if (op.getWindowDimensions())
    sizes.assign(op.getWindowDimensions()->begin(),
                 op.getWindowDimensions()->end());
  auto window =
      stablehlo::readWindow(op, {sizes, op.getWindowStrides(), op.getPadding(),
                                 std::nullopt, std::nullopt});
  return failed(window) ? failure() : PoolGradient(op, *window).run();
}

/// Whether there is something to look at; ops on nothing keep their error.
static bool isFilled(Operation *op) {
  return llvm::all_of(
      llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()),
      [](Type type) {
        auto tensor = dyn_cast<RankedTensorType>(type);
        return tensor && tensor.hasStaticShape() && tensor.getNumElements() > 0;
      });
}

namespace {
class ExpandWindowsPass
    : public scalify::impl::ExpandWindowsBase<ExpandWindowsPass> {
public:
  void runOnOperation() override {
    SmallVector<Operation *> found;
    getOperation().walk([&](Operation *op) {
      if (isa<stablehlo::ReduceWindowOp, stablehlo::SelectAndScatterOp>(op) &&
          isFilled(op))
        found.push_back(op);
    });
    for (Operation *op : found) {
      auto window = dyn_cast<stablehlo::ReduceWindowOp>(op);
      if (failed(window ? expand(window)
                        : expand(cast<stablehlo::SelectAndScatterOp>(op))))
        return signalPassFailure();
    }
    numExpanded += found.size();
  }
};
} // namespace
