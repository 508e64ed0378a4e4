//===- ExpandConvolutions.cpp - Convolutions as dots ----------------------===//

#include "TensorBuilder.h"
#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDCONVOLUTIONS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
/// A convolution as a dot of what its windows see and the kernel, one for each
/// group of features or of the batch.
class Dot {
public:
  explicit Dot(stablehlo::ConvolutionOp op)
      : op(op), numbers(op.getDimensionNumbers()), b(op),
        features(static_cast<int64_t>(op.getFeatureGroupCount())),
        batches(static_cast<int64_t>(op.getBatchGroupCount())) {}

  LogicalResult run();

private:
  Value kernel();
  Value groupsFirst(Value value, int64_t dim);

  stablehlo::ConvolutionOp op;
  stablehlo::ConvDimensionNumbersAttr numbers;
  TensorBuilder b;
  int64_t features, batches;
};
} // namespace

/// Cuts a dimension into the groups and what each has, and moves the groups to
/// the front.
Value Dot::groupsFirst(Value value, int64_t dim) {
  int64_t groups = features * batches;
  SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[dim] /= groups;
  shape.insert(shape.begin() + dim, groups);
  value = b.reshape(value, shape);
  SmallVector<int64_t> order{dim};
  for (int64_t d = 0; d < int64_t(shape.size()); ++d)
    if (d != dim)
      order.push_back(d);
  return b.transpose(value, order);
}

/// Groups, spatial dimensions, input features, output features.
Value Dot::kernel() {
  SmallVector<int64_t> order(numbers.getKernelSpatialDimensions());
  Value value = op.getRhs();
  if (op.getWindowReversal()) {
    SmallVector<int64_t> reversed;
    for (auto [dim, isReversed] : llvm::zip(order, *op.getWindowReversal()))
      if (isReversed)
        reversed.push_back(dim);
    if (!reversed.empty())
      value = b.reverse(value, reversed);
  }
  order.push_back(numbers.getKernelInputFeatureDimension());
  order.push_back(numbers.getKernelOutputFeatureDimension());
  value = b.transpose(value, order);
  // What the windows have no dimension for.
  SmallVector<int64_t> shape;
  for (int64_t d = 0; d < int64_t(order.size()); ++d)
    if (d + 2 >= int64_t(order.size()) || typeOf(value).getDimSize(d) > 1)
      shape.push_back(typeOf(value).getDimSize(d));
  value = b.reshape(value, shape);
  return groupsFirst(value, int64_t(shape.size()) - 1);
}

LogicalResult Dot::run() {
  SmallVector<int64_t> sizes, order{numbers.getInputBatchDimension()};
  for (int64_t dim : numbers.getKernelSpatialDimensions())
    sizes.push_back(typeOf(op.getRhs()).getDimSize(dim));
  auto window =
      stablehlo::readWindow(op, {sizes, op.getWindowStrides(), op.getPadding(),
                                 op.getLhsDilation(), op.getRhsDilation()});
  if (failed(window))
    return failure();
  window->insert(window->begin(), stablehlo::WindowDim());
  window->push_back(stablehlo::WindowDim());
  llvm::append_range(order, numbers.getInputSpatialDimensions());
  order.push_back(numbers.getInputFeatureDimension());
  Value input = b.transpose(op.getLhs(), order);
  Type element = typeOf(input).getElementType();
  // Batch, places, features, elements of the window.
  input = b.windows(input, b.constant(0, element, {}), *window);
  int64_t places = sizes.size(), feature = places + 1;
  // One of the two counts is 1: groups are those of the other.
  Value lhs = groupsFirst(input, batches > 1 ? 0 : feature);
  Value rhs = kernel();
  int64_t elements = typeOf(rhs).getRank() - 3;
  SmallVector<int64_t> lhsSums, rhsSums;
  for (int64_t d = 0; d < elements; ++d) {
    lhsSums.push_back(feature + 2 + d);
    rhsSums.push_back(1 + d);
  }
  lhsSums.push_back(feature + 1);
  rhsSums.push_back(1 + elements);
  // Groups, batch, places, output features.
  SmallVector<int64_t> shape(typeOf(lhs).getShape().take_front(2 + places));
  int64_t outputs = typeOf(rhs).getDimSize(2 + elements);
  shape.push_back(outputs);
  auto dims = stablehlo::DotDimensionNumbersAttr::get(op.getContext(), {0}, {0},
                                                      lhsSums, rhsSums);
  Value dot = stablehlo::DotGeneralOp::create(
      b.ops, typeOf(op.getResult()).clone(shape), lhs, rhs, dims,
      op.getPrecisionConfigAttr(), {});
  // Groups stand before the features of the result, and features vary inside.
  SmallVector<int64_t> back;
  for (int64_t d = 1; d < 2 + places; ++d)
    back.push_back(d);
  back.append({0, 2 + places});
  dot = b.transpose(dot, back);
  shape.erase(shape.begin());
  shape.back() = outputs * features * batches;
  dot = b.reshape(dot, shape);
  SmallVector<int64_t> result(shape.size());
  result[numbers.getOutputBatchDimension()] = 0;
  for (auto [i, dim] : llvm::enumerate(numbers.getOutputSpatialDimensions()))
    result[dim] = static_cast<int64_t>(i) + 1;
  result[numbers.getOutputFeatureDimension()] = places + 1;
  op.getResult().replaceAllUsesWith(b.transpose(dot, result));
  op.erase();
  return success();
}

namespace {
class ExpandConvolutionsPass
    : public scalify::impl::ExpandConvolutionsBase<ExpandConvolutionsPass> {
public:
  void runOnOperation() override {
    SmallVector<stablehlo::ConvolutionOp> found;
    getOperation().walk([&](stablehlo::ConvolutionOp op) {
      auto isFilled = [](Type type) {
        auto tensor = dyn_cast<RankedTensorType>(type);
        return tensor && tensor.hasStaticShape() && tensor.getNumElements() > 0;
      };
      if (llvm::all_of(op->getOperandTypes(), isFilled) &&
          isFilled(op.getType()))
        found.push_back(op);
    });
    for (stablehlo::ConvolutionOp op : found)
      if (failed(Dot(op).run()))
        return signalPassFailure();
    numExpanded += found.size();
  }
};
} // namespace
