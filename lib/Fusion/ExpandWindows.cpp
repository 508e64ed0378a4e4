//===- ExpandWindows.cpp - Reductions and scatters of windows -------------===//
//
// A window is an index (plan.windows), so a reduction over windows is one over
// the positions inside them. The gradient of a maximum over windows is a gather
// instead of a scatter: each element sums over the windows that contain it and
// selected it, so that nothing is written twice and the order of the sum is
// that of the windows.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"
#include "Windows.h"

#include "scalify/Dialect/StableHLO/ElementRegions.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDWINDOWS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using stablehlo::WindowDim;

// Prefixes longer than this are combined in log2(n) steps over the whole tensor
// instead of each from its first element.
static constexpr int64_t kLongPrefix = 32;

//===----------------------------------------------------------------------===//
// reduce_window
//===----------------------------------------------------------------------===//

/// Returns the dimension of a cumulative reduction, in which each result
/// combines all elements up to its own, or from its own on. -1 for other
/// windows, and for an initial value that is not neutral, since each step adds
/// it.
static int64_t prefixDim(stablehlo::ReduceWindowOp op,
                         ArrayRef<WindowDim> windows) {
  if (!stablehlo::hasNeutralInit(op.getBody(), op.getInitValues()))
    return -1;
  int64_t found = -1;
  for (auto [dim, window] : llvm::enumerate(windows)) {
    bool isPlain = window.stride == 1 && window.baseDilation == 1 &&
                   window.windowDilation == 1;
    if (!isPlain)
      return -1;
    if (window.size == 1 && window.low == 0 && window.high == 0)
      continue;
    int64_t size = typeOf(op.getInputs()[0]).getDimSize(dim);
    bool isWhole =
        window.size == size && ((window.low == 0 && window.high == size - 1) ||
                                (window.high == 0 && window.low == size - 1));
    if (found >= 0 || !isWhole)
      return -1;
    found = static_cast<int64_t>(dim);
  }
  return found;
}

/// Computes a scan after Hillis and Steele (1986): after step i each element
/// combines the 2^i elements that end with it.
static FailureOr<SmallVector<Value>> buildScan(ImplicitLocOpBuilder &b,
                                               stablehlo::ReduceWindowOp op,
                                               int64_t dim, bool isReverse) {
  // Apply the initial value once, as a reduction does: not every element gets
  // it as the padding of a shift.
  SmallVector<Value> values;
  for (auto [init, input] : llvm::zip(op.getInitValues(), op.getInputs()))
    values.push_back(stablehlo::BroadcastInDimOp::create(
        b, input.getType(), init, ArrayRef<int64_t>()));
  llvm::append_range(values, op.getInputs());
  auto begun = stablehlo::applyToElements(b, op, op.getBody().front(), values);
  if (failed(begun))
    return failure();
  values = *begun;
  int64_t size = typeOf(values[0]).getDimSize(dim);
  for (int64_t step = 1; step < size; step *= 2) {
    SmallVector<WindowDim> shift(typeOf(values[0]).getRank());
    shift[dim].low = isReverse ? -step : step;
    shift[dim].high = -shift[dim].low;
    SmallVector<Value> earlier;
    for (auto [value, init] : llvm::zip(values, op.getInitValues())) {
      auto none = SmallVector<int64_t>(shift.size(), 0);
      auto low = none, high = none;
      low[dim] = shift[dim].low;
      high[dim] = shift[dim].high;
      earlier.push_back(stablehlo::PadOp::create(b, value.getType(), value,
                                                 init, low, high, none));
    }
    SmallVector<Value> sides = isReverse ? values : earlier;
    llvm::append_range(sides, isReverse ? earlier : values);
    auto joined =
        stablehlo::applyToElements(b, op, op.getBody().front(), sides);
    if (failed(joined))
      return failure();
    values = *joined;
  }
  return values;
}

static FailureOr<SmallVector<Value>>
expandReduceWindow(ImplicitLocOpBuilder &b, stablehlo::ReduceWindowOp op) {
  auto windows = stablehlo::readWindow(
      op, {op.getWindowDimensions(), op.getWindowStrides(), op.getPadding(),
           op.getBaseDilations(), op.getWindowDilations()});
  if (failed(windows))
    return failure();
  SmallVector<Value> views;
  // Negative padding may remove all elements.
  if (typeOf(op.getResult(0)).getNumElements() == 0) {
    for (auto [init, result] : llvm::zip(op.getInitValues(), op.getResults()))
      views.push_back(spreadOver(b, init, result.getType()));
    return views;
  }
  int64_t prefix = prefixDim(op, *windows);
  if (prefix >= 0 && (*windows)[prefix].size > kLongPrefix)
    return buildScan(b, op, prefix, (*windows)[prefix].high != 0);
  if (failed(checkWindows(op, typeOf(op.getInputs()[0]), *windows)))
    return failure();
  for (auto [input, init] : llvm::zip(op.getInputs(), op.getInitValues()))
    views.push_back(
        windowsOf(b, padForWindows(b, input, init, *windows), *windows));
  SmallVector<int64_t> inside;
  for (int64_t dim = typeOf(op.getInputs()[0]).getRank(),
               end = typeOf(views[0]).getRank();
       dim < end; ++dim)
    inside.push_back(dim);
  auto reduce =
      stablehlo::ReduceOp::create(b, views, op.getInitValues(), inside);
  reduce.getBody().takeBody(op.getBody());
  return SmallVector<Value>(reduce.getResults());
}

//===----------------------------------------------------------------------===//
// select_and_scatter
//===----------------------------------------------------------------------===//

namespace {
/// The gradient of a maximum, or another selection, over windows.
class SelectedElements {
public:
  SelectedElements(ImplicitLocOpBuilder &b, stablehlo::SelectAndScatterOp op)
      : b(b), op(op), type(typeOf(op.getOperand())) {}

  FailureOr<Value> scatter();

private:
  Value places();
  FailureOr<Value> choose();
  LogicalResult buildChoice(Region &region);
  Value around(Value ofWindows, Value padding);
  FailureOr<Value> combine(Value values, Value isMine,
                           ArrayRef<int64_t> inside);

  ImplicitLocOpBuilder &b;
  stablehlo::SelectAndScatterOp op;
  RankedTensorType type;
  SmallVector<WindowDim> windows;
};
} // namespace

/// Builds the linear index of each element of the operand.
Value SelectedElements::places() {
  auto flat = RankedTensorType::get({type.getNumElements()}, b.getI32Type());
  return stablehlo::ReshapeOp::create(b, type.clone(b.getI32Type()),
                                      stablehlo::IotaOp::create(b, flat, 0));
}

/// Builds the reducer of two (element, index) pairs to the selected one.
/// Padding has negative indices and is never selected.
LogicalResult SelectedElements::buildChoice(Region &region) {
  OpBuilder::InsertionGuard guard(b);
  auto value = RankedTensorType::get({}, type.getElementType());
  auto place = RankedTensorType::get({}, b.getI32Type());
  SmallVector<Location> locs(4, b.getLoc());
  Block *block = b.createBlock(&region, {}, {value, place, value, place}, locs);
  Value x = block->getArgument(0), i = block->getArgument(1);
  Value y = block->getArgument(2), j = block->getArgument(3);
  using Direction = stablehlo::ComparisonDirection;
  auto kept = stablehlo::applyToElements(b, op, op.getSelect().front(), {x, y});
  if (failed(kept))
    return failure();
  auto isPlace = [&](Value where, Direction direction) -> Value {
    return stablehlo::CompareOp::create(b, where, zeroOf(b, b.getI32Type()),
                                        direction,
                                        stablehlo::ComparisonType::SIGNED);
  };
  Value keeps = stablehlo::OrOp::create(
      b, stablehlo::AndOp::create(b, kept->front(), isPlace(i, Direction::GE)),
      isPlace(j, Direction::LT));
  Value chosen = stablehlo::SelectOp::create(b, keeps, x, y);
  Value where = stablehlo::SelectOp::create(b, keeps, i, j);
  stablehlo::ReturnOp::create(b, ValueRange{chosen, where});
  return success();
}

static Value noPlace(ImplicitLocOpBuilder &b) {
  return stablehlo::buildIndex(b, b.getLoc(), -1);
}

/// Computes the index that each window selects.
FailureOr<Value> SelectedElements::choose() {
  Value none = noPlace(b);
  Value zero = zeroOf(b, type.getElementType());
  Value values =
      windowsOf(b, padForWindows(b, op.getOperand(), zero, windows), windows);
  Value where =
      windowsOf(b, padForWindows(b, places(), none, windows), windows);
  SmallVector<int64_t> inside;
  for (int64_t dim = type.getRank(); dim < typeOf(values).getRank(); ++dim)
    inside.push_back(dim);
  auto reduce = stablehlo::ReduceOp::create(b, ValueRange{values, where},
                                            ValueRange{zero, none}, inside);
  if (failed(buildChoice(reduce.getBody())))
    return failure();
  return reduce.getResult(1);
}

/// Gathers, for each element, the values of `ofWindows` for the windows that
/// contain it. Window o contains element i if i = o * stride + k - low for a
/// position k inside the window: the gather reads windows of the same size and
/// stride 1 over the windows spread to o * stride.
Value SelectedElements::around(Value ofWindows, Value padding) {
  SmallVector<WindowDim> reading;
  for (auto [dim, window] : llvm::enumerate(windows)) {
    int64_t count = typeOf(ofWindows).getDimSize(dim);
    WindowDim own;
    own.size = window.size;
    own.baseDilation = window.stride;
    own.low = window.size - 1 - window.low;
    int64_t spread = count == 0 ? 0 : (count - 1) * window.stride + 1;
    own.high = type.getDimSize(dim) + window.size - 1 - own.low - spread;
    reading.push_back(own);
  }
  return windowsOf(b, padForWindows(b, ofWindows, padding, reading), reading);
}

FailureOr<Value> SelectedElements::scatter() {
  SmallVector<int64_t> sizes(type.getRank(), 1);
  if (op.getWindowDimensions())
    sizes.assign(op.getWindowDimensions()->begin(),
                 op.getWindowDimensions()->end());
  auto read = stablehlo::readWindow(
      op, {sizes, op.getWindowStrides(), op.getPadding(), {}, {}});
  if (failed(read))
    return failure();
  windows = *read;
  if (failed(checkWindows(op, type, windows)))
    return failure();
  // Each element reads a window of windows.
  SmallVector<WindowDim> reading(windows.size());
  for (auto [own, window] : llvm::zip(reading, windows)) {
    own.size = window.size;
    own.low = window.size - 1;
  }
  if (failed(checkWindows(op, type, reading)))
    return failure();
  if (type.getNumElements() > std::numeric_limits<int32_t>::max()) {
    op.emitOpError("has more elements than 32 bits index: split the operand");
    return failure();
  }
  FailureOr<Value> chosen = choose();
  if (failed(chosen))
    return failure();
  Type element = type.getElementType();
  Value zero = zeroOf(b, element);
  Value given = around(op.getSource(), zero);
  Value where = around(*chosen, noPlace(b));
  SmallVector<int64_t> own, inside;
  for (int64_t dim = 0; dim < typeOf(given).getRank(); ++dim)
    (dim < type.getRank() ? own : inside).push_back(dim);
  Value mine =
      stablehlo::BroadcastInDimOp::create(b, where.getType(), places(), own);
  Value isMine = stablehlo::CompareOp::create(
      b, where, mine, stablehlo::ComparisonDirection::EQ,
      stablehlo::ComparisonType::SIGNED);
  if (!stablehlo::isSum(op.getScatter()))
    return combine(given, isMine, inside);
  Value zeros = stablehlo::BroadcastInDimOp::create(b, given.getType(), zero,
                                                    ArrayRef<int64_t>());
  Value parts = stablehlo::SelectOp::create(b, isMine, given, zeros);
  return stablehlo::buildReduce<stablehlo::AddOp>(b, b.getLoc(), parts,
                                                  op.getInitValue(), inside);
}

/// Combines the values where `isMine` by the op's own body, which need not have
/// a neutral element: pairs of a value and whether it counts are reduced.
FailureOr<Value> SelectedElements::combine(Value values, Value isMine,
                                           ArrayRef<int64_t> inside) {
  Value yes = stablehlo::buildConstant(
      b, RankedTensorType::get({}, b.getI1Type()), true);
  auto reduce =
      stablehlo::ReduceOp::create(b, ValueRange{values, isMine},
                                  ValueRange{op.getInitValue(), yes}, inside);
  OpBuilder::InsertionGuard guard(b);
  auto value = RankedTensorType::get({}, type.getElementType());
  auto flag = RankedTensorType::get({}, b.getI1Type());
  SmallVector<Location> locs(4, b.getLoc());
  Block *block =
      b.createBlock(&reduce.getBody(), {}, {value, flag, value, flag}, locs);
  Value x = block->getArgument(0), hasX = block->getArgument(1);
  Value y = block->getArgument(2), hasY = block->getArgument(3);
  auto both =
      stablehlo::applyToElements(b, op, op.getScatter().front(), {x, y});
  if (failed(both))
    return failure();
  Value one = stablehlo::SelectOp::create(b, hasX, x, y);
  Value areBoth = stablehlo::AndOp::create(b, hasX, hasY);
  Value joined = stablehlo::SelectOp::create(b, areBoth, both->front(), one);
  Value has = stablehlo::OrOp::create(b, hasX, hasY);
  stablehlo::ReturnOp::create(b, ValueRange{joined, has});
  return reduce.getResult(0);
}

static FailureOr<SmallVector<Value>> expandWindows(ImplicitLocOpBuilder &b,
                                                   Operation *op) {
  if (auto reduce = dyn_cast<stablehlo::ReduceWindowOp>(op))
    return expandReduceWindow(b, reduce);
  auto scatter = cast<stablehlo::SelectAndScatterOp>(op);
  if (typeOf(scatter.getSource()).getNumElements() == 0)
    return SmallVector<Value>{
        spreadOver(b, scatter.getInitValue(), scatter.getType())};
  FailureOr<Value> result = SelectedElements(b, scatter).scatter();
  if (failed(result))
    return failure();
  return SmallVector<Value>{*result};
}

namespace {
struct ExpandWindowsPass : scalify::impl::ExpandWindowsBase<ExpandWindowsPass> {
  void runOnOperation() override;
};
} // namespace

void ExpandWindowsPass::runOnOperation() {
  auto count = expandOps(
      getOperation(),
      llvm::IsaPred<stablehlo::ReduceWindowOp, stablehlo::SelectAndScatterOp>,
      expandWindows);
  if (failed(count))
    return signalPassFailure();
  numWindows += *count;
}
