//===- Convolution.cpp - Convolutions -------------------------------------===//

#include "Assembly.h"
#include "Verification.h"

#include "scalify/Dialect/StableHLO/Window.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify::stablehlo;

/// Checks that the dimensions of operands and result are each named once.
template <typename Op>
static LogicalResult checkDimensionNumbers(Op op, int64_t rank) {
  ConvDimensionNumbersAttr dims = op.getDimensionNumbers();
  auto check = [&](StringRef what, int64_t a, int64_t b,
                   ArrayRef<int64_t> spatial) -> LogicalResult {
    SmallVector<int64_t> all{a, b};
    llvm::append_range(all, spatial);
    if (failed(checkLength(op.getLoc(), op.getOperationName(), what, all.size(),
                           rank)))
      return failure();
    return checkDims(op.getLoc(), op.getOperationName(), what, all, rank);
  };
  if (failed(check("input dimensions", dims.getInputBatchDimension(),
                   dims.getInputFeatureDimension(),
                   dims.getInputSpatialDimensions())) ||
      failed(check("kernel dimensions", dims.getKernelInputFeatureDimension(),
                   dims.getKernelOutputFeatureDimension(),
                   dims.getKernelSpatialDimensions())))
    return failure();
  return check("output dimensions", dims.getOutputBatchDimension(),
               dims.getOutputFeatureDimension(),
               dims.getOutputSpatialDimensions());
}

/// Checks the counts of groups against the sizes of batch and features.
template <typename Op>
static LogicalResult checkGroups(Op op, RankedTensorType lhs,
                                 RankedTensorType rhs) {
  ConvDimensionNumbersAttr dims = op.getDimensionNumbers();
  int64_t batch = lhs.getDimSize(dims.getInputBatchDimension());
  int64_t features = lhs.getDimSize(dims.getInputFeatureDimension());
  int64_t kernelIn = rhs.getDimSize(dims.getKernelInputFeatureDimension());
  int64_t kernelOut = rhs.getDimSize(dims.getKernelOutputFeatureDimension());
  int64_t groups = op.getFeatureGroupCount();
  int64_t batchGroups = op.getBatchGroupCount();
  // convolution_c23
  if (groups != 1 && batchGroups != 1)
    return op.emitOpError() << "needs a group count of 1 for features or batch "
                               "but got "
                            << groups << " and " << batchGroups;
  // convolution_c10, convolution_c15, convolution_c16
  auto divides = [](int64_t by, int64_t size) {
    return ShapedType::isDynamic(size) || size % by == 0;
  };
  if (!divides(batchGroups, batch) || !divides(groups, features) ||
      !divides(groups, kernelOut) || !divides(batchGroups, kernelOut))
    return op.emitOpError() << "needs group counts that divide the sizes of "
                               "batch and features of "
                            << lhs << " and " << rhs;
  // convolution_c14
  if (ShapedType::isStatic(features) &&
      !sizesAgree(kernelIn, features / groups))
    return op.emitOpError()
           << "needs " << features / groups
           << " input features in the kernel but got " << kernelIn;
  return success();
}

/// Checks a convolution; the padding of one of `dynamicPadding` is an operand,
/// which leaves the sizes of the output's windows open.
template <typename Op>
static LogicalResult verifyConvolution(Op op, bool dynamicPadding) {
  auto lhs = cast<RankedTensorType>(op.getLhs().getType());
  auto rhs = cast<RankedTensorType>(op.getRhs().getType());
  auto result = cast<RankedTensorType>(op.getType());
  ConvDimensionNumbersAttr dims = op.getDimensionNumbers();
  int64_t rank = lhs.getRank();
  // convolution_c1
  if (rhs.getRank() != rank || result.getRank() != rank)
    return op.emitOpError() << "needs tensors of one rank but got " << lhs
                            << ", " << rhs << " and " << result;
  // convolution_c13, convolution_c18, convolution_c20
  if (failed(checkDimensionNumbers(op, rank)) ||
      failed(checkGroups(op, lhs, rhs)))
    return failure();
  // convolution_c2 to c9
  SmallVector<int64_t> base, kernel;
  for (int64_t dim : dims.getInputSpatialDimensions())
    base.push_back(dynamicPadding ? ShapedType::kDynamic : lhs.getDimSize(dim));
  for (int64_t dim : dims.getKernelSpatialDimensions())
    kernel.push_back(rhs.getDimSize(dim));
  auto window = readWindow(op, {kernel, op.getWindowStrides(), op.getPadding(),
                                op.getLhsDilation(), op.getRhsDilation()});
  if (failed(window))
    return failure();
  if (op.getWindowReversal() &&
      failed(checkLength(op.getLoc(), op.getOperationName(), "window reversal",
                         op.getWindowReversal()->size(), rank - 2)))
    return failure();
  // convolution_c24
  if (failed(checkPrecisions(op, op.getPrecisionConfig())))
    return failure();
  // convolution_c25
  SmallVector<int64_t> shape(rank);
  int64_t batch = lhs.getDimSize(dims.getInputBatchDimension());
  shape[dims.getOutputBatchDimension()] =
      ShapedType::isDynamic(batch)
          ? batch
          : batch / static_cast<int64_t>(op.getBatchGroupCount());
  shape[dims.getOutputFeatureDimension()] =
      rhs.getDimSize(dims.getKernelOutputFeatureDimension());
  for (auto [dim, size] :
       llvm::zip(dims.getOutputSpatialDimensions(), windowShape(base, *window)))
    shape[dim] = size;
  return checkResultShape(op, shape, result);
}

LogicalResult ConvolutionOp::verify() {
  return verifyConvolution(*this, /*dynamicPadding=*/false);
}

LogicalResult DynamicConvOp::verify() {
  auto padding = cast<RankedTensorType>(getDPadding().getType());
  int64_t windows = cast<RankedTensorType>(getLhs().getType()).getRank() - 2;
  // dynamic_conv_c4
  if (failed(verifyCompatibleShape(padding.getShape(), {windows, 2})))
    return emitOpError() << "needs padding of shape " << windows
                         << "x2 but got " << padding;
  return verifyConvolution(*this, /*dynamicPadding=*/true);
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Convolution.cpp.inc"
