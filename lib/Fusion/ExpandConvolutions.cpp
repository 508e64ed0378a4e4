//===- ExpandConvolutions.cpp - Convolutions as dots of windows -----------===//
//
// Multiplies the windows of the input, which a kernel writes side by side, by
// the kernel as a matrix (Chellapilla et al. 2006, "High Performance
// Convolutional Neural Networks for Document Processing"). One case covers all
// convolutions: strides and dilations are an index, the gradients of inputs and
// of kernels are convolutions, and groups are batch dimensions of the dot.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"
#include "Windows.h"

#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDCONVOLUTIONS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

using MaybeValues = FailureOr<SmallVector<Value>>;

static Value transposed(ImplicitLocOpBuilder &b, Value value,
                        ArrayRef<int64_t> order) {
  if (llvm::equal(order, llvm::seq<int64_t>(order.size())))
    return value;
  return stablehlo::TransposeOp::create(b, value, order);
}

static Value reshaped(ImplicitLocOpBuilder &b, Value value,
                      ArrayRef<int64_t> shape) {
  RankedTensorType type = typeOf(value).clone(shape);
  if (type == value.getType())
    return value;
  return stablehlo::ReshapeOp::create(b, type, value);
}

/// Splits dimension `dim` into `groups` groups.
static Value grouped(ImplicitLocOpBuilder &b, Value value, int64_t dim,
                     int64_t groups) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[dim] /= groups;
  shape.insert(shape.begin() + dim, groups);
  return reshaped(b, value, shape);
}

namespace {
/// A convolution as a dot: rows (batch and output positions) times columns
/// (output features), for each group, contracted over input features and window
/// positions.
class Convolution {
public:
  Convolution(ImplicitLocOpBuilder &b, stablehlo::ConvolutionOp op)
      : b(b), op(op), numbers(op.getDimensionNumbers()),
        groups(std::max(op.getFeatureGroupCount(), op.getBatchGroupCount())) {}

  FailureOr<Value> expand();

private:
  void makeKernel();
  LogicalResult makeWindows();
  Value multiply();
  Value product(ArrayRef<int64_t> shape, int64_t first, int64_t summed);
  Value placed(Value result);

  ImplicitLocOpBuilder &b;
  stablehlo::ConvolutionOp op;
  stablehlo::ConvDimensionNumbersAttr numbers;
  int64_t groups;
  // The operands: [group], rows, contracted dimensions; and [group], output
  // features and contracted dimensions in their order in memory.
  Value windows, kernel;
  int64_t columnDim = 0;              // of the kernel
  SmallVector<int64_t> sums;          // dimensions of the kernel
  SmallVector<int64_t> sumsAsSpatial; // spatial dimension, -1 for features
  SmallVector<int64_t> rows;          // dimensions of the result
};
} // namespace

/// Builds the kernel with groups first, reversed along the dimensions that the
/// op reverses.
void Convolution::makeKernel() {
  kernel = op.getRhs();
  ArrayRef<int64_t> spatial = numbers.getKernelSpatialDimensions();
  SmallVector<int64_t> turned;
  if (op.getWindowReversal())
    for (auto [dim, isTurned] : llvm::zip(spatial, *op.getWindowReversal()))
      if (isTurned)
        turned.push_back(dim);
  if (!turned.empty())
    kernel = stablehlo::ReverseOp::create(b, kernel, turned);
  int64_t columns = numbers.getKernelOutputFeatureDimension();
  int64_t rank = typeOf(kernel).getRank();
  columnDim = columns;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (dim == columns)
      continue;
    const auto *found = llvm::find(spatial, dim);
    sums.push_back(dim);
    sumsAsSpatial.push_back(found == spatial.end() ? -1
                                                   : found - spatial.begin());
  }
  if (groups == 1)
    return;
  kernel = grouped(b, kernel, columns, groups);
  SmallVector<int64_t> order{columns};
  for (int64_t dim = 0; dim <= rank; ++dim)
    if (dim != columns)
      order.push_back(dim);
  kernel = transposed(b, kernel, order);
  ++columnDim;
  for (int64_t &dim : sums)
    ++dim;
}

/// Builds the windows, padded, in the order that the dot reads.
LogicalResult Convolution::makeWindows() {
  Value input = op.getLhs();
  int64_t rank = typeOf(input).getRank();
  SmallVector<int64_t> sizes(rank, 1);
  ArrayRef<int64_t> spatial = numbers.getInputSpatialDimensions();
  SmallVector<int64_t> kernelSizes;
  for (int64_t dim : numbers.getKernelSpatialDimensions())
    kernelSizes.push_back(typeOf(op.getRhs()).getDimSize(dim));
  auto read = stablehlo::readWindow(op, {kernelSizes, op.getWindowStrides(),
                                         op.getPadding(), op.getLhsDilation(),
                                         op.getRhsDilation()});
  if (failed(read))
    return failure();
  SmallVector<stablehlo::WindowDim> all(rank);
  for (auto [dim, window] : llvm::zip(spatial, *read))
    all[dim] = window;
  if (failed(checkWindows(op, typeOf(input), all)))
    return failure();
  Type element = typeOf(input).getElementType();
  Value padded = padForWindows(b, input, zeroOf(b, element), all);
  int64_t split = op.getFeatureGroupCount() > 1
                      ? numbers.getInputFeatureDimension()
                      : numbers.getInputBatchDimension();
  if (groups > 1) {
    padded = grouped(b, padded, split, groups);
    all.insert(all.begin() + split, stablehlo::WindowDim());
  }
  auto shifted = [&](int64_t dim) {
    return dim + (groups > 1 && dim >= split ? 1 : 0);
  };
  // Order the dimensions: group, rows as in the result, then the window's as in
  // the kernel.
  SmallVector<int64_t> order;
  if (groups > 1)
    order.push_back(split);
  // Dimensions of the result, and of the padded input.
  SmallVector<std::pair<int64_t, int64_t>> places;
  places.push_back({numbers.getOutputBatchDimension(),
                    shifted(numbers.getInputBatchDimension())});
  for (auto [out, in] :
       llvm::zip(numbers.getOutputSpatialDimensions(), spatial))
    places.push_back({out, shifted(in)});
  llvm::sort(places);
  for (auto [out, in] : places) {
    rows.push_back(out);
    order.push_back(in);
  }
  SmallVector<int64_t> windowDim(spatial.size(), -1);
  int64_t next = typeOf(padded).getRank();
  llvm::SmallVector<std::pair<int64_t, size_t>> inOrder;
  for (auto [i, dim] : llvm::enumerate(spatial))
    inOrder.push_back({shifted(dim), i});
  llvm::sort(inOrder);
  for (auto [dim, i] : inOrder)
    if (all[dim].size != 1 || all[dim].stride != 1)
      windowDim[i] = next++;
  Value view = windowsOf(b, padded, all);
  SmallVector<int64_t> wanted;
  for (int64_t place : sumsAsSpatial) {
    int64_t dim = place < 0 ? shifted(numbers.getInputFeatureDimension())
                            : windowDim[place];
    if (dim >= 0)
      order.push_back(dim);
  }
  view = transposed(b, view, order);
  // Add the dimensions of windows of one element, which the view lacks.
  SmallVector<int64_t> shape(
      typeOf(view).getShape().take_front(rows.size() + (groups > 1 ? 1 : 0)));
  for (int64_t dim : sums)
    shape.push_back(typeOf(kernel).getDimSize(dim));
  windows = reshaped(b, view, shape);
  return success();
}

/// Expands a convolution of one column per group, such as a depthwise one, into
/// an elementwise product and a sum: unlike for a GEMM, its windows are never
/// in memory.
Value Convolution::multiply() {
  RankedTensorType result = typeOf(op.getResult());
  Type element = result.getElementType();
  bool isNarrow =
      isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
  Type wide = isNarrow ? b.getF32Type() : element;
  auto converted = [&](Value value, Type to) -> Value {
    if (typeOf(value).getElementType() == to)
      return value;
    return stablehlo::ConvertOp::create(b, typeOf(value).clone(to), value);
  };
  Value x = converted(windows, wide), w = converted(kernel, wide);
  SmallVector<int64_t> from{0}, summed;
  int64_t first = 1 + static_cast<int64_t>(rows.size());
  SmallVector<int64_t> shape{groups};
  for (size_t i = 0; i < sums.size(); ++i) {
    from.push_back(first + static_cast<int64_t>(i));
    summed.push_back(first + static_cast<int64_t>(i));
    shape.push_back(typeOf(kernel).getDimSize(sums[i]));
  }
  w = reshaped(b, w, shape); // drops the column, of size 1
  Value spread = stablehlo::BroadcastInDimOp::create(b, x.getType(), w, from);
  Value products = stablehlo::MulOp::create(b, x, spread);
  Value sum = stablehlo::buildReduce<stablehlo::AddOp>(b, b.getLoc(), products,
                                                       zeroOf(b, wide), summed);
  SmallVector<int64_t> withColumn(typeOf(sum).getShape());
  withColumn.push_back(1);
  return converted(reshaped(b, sum, withColumn), element);
}

/// Transposes the dimensions to the order of the result, and merges groups and
/// features.
Value Convolution::placed(Value value) {
  RankedTensorType type = typeOf(op.getResult());
  int64_t features = numbers.getOutputFeatureDimension();
  int64_t shift = groups > 1 ? 1 : 0;
  int64_t last = typeOf(value).getRank() - 1;
  SmallVector<int64_t> order(type.getRank(), -1);
  for (auto [i, dim] : llvm::enumerate(rows))
    order[dim] = static_cast<int64_t>(i) + shift;
  order[features] = last;
  if (groups > 1)
    order.insert(order.begin() + features, 0);
  return reshaped(b, transposed(b, value, order), type.getShape());
}

FailureOr<Value> Convolution::expand() {
  makeKernel();
  if (failed(makeWindows()))
    return failure();
  if (groups > 1 && typeOf(kernel).getDimSize(columnDim) == 1)
    return placed(multiply());
  SmallVector<int64_t> batch, lhsSums,
      shape(typeOf(windows).getShape().take_front(rows.size() +
                                                  (groups > 1 ? 1 : 0)));
  if (groups > 1)
    batch.push_back(0);
  shape.push_back(typeOf(kernel).getDimSize(columnDim));
  for (size_t i = 0; i < sums.size(); ++i)
    lhsSums.push_back(shape.size() - 1 + i);
  auto dims = stablehlo::DotDimensionNumbersAttr::get(b.getContext(), batch,
                                                      batch, lhsSums, sums);
  auto type = typeOf(op.getResult()).clone(shape);
  Value dot = stablehlo::DotGeneralOp::create(b, type, windows, kernel, dims,
                                              op.getPrecisionConfigAttr(),
                                              /*algorithm=*/nullptr);
  return placed(dot);
}

namespace {
struct ExpandConvolutionsPass
    : scalify::impl::ExpandConvolutionsBase<ExpandConvolutionsPass> {
  void runOnOperation() override;
};
} // namespace

void ExpandConvolutionsPass::runOnOperation() {
  auto count =
      expandOps(getOperation(), llvm::IsaPred<stablehlo::ConvolutionOp>,
                [](ImplicitLocOpBuilder &b, Operation *op) -> MaybeValues {
                  auto convolution = cast<stablehlo::ConvolutionOp>(op);
                  RankedTensorType type = typeOf(convolution.getResult());
                  // Negative padding may remove all elements.
                  if (type.getNumElements() == 0)
                    return SmallVector<Value>{
                        spreadOver(b, zeroOf(b, type.getElementType()), type)};
                  FailureOr<Value> result =
                      Convolution(b, convolution).expand();
                  if (failed(result))
                    return failure();
                  return SmallVector<Value>{*result};
                });
  if (failed(count))
    return signalPassFailure();
  numConvolutions += *count;
}
