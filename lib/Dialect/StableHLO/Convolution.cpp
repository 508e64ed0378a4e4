//===- Convolution.cpp - Convolutions -------------------------------------===//

#include "Assembly.h"
#include "Verification.h"

#include "scalify/Dialect/StableHLO/Window.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify::stablehlo;

/// Checks that the dimensions of operands and result are each named once.
static LogicalResult checkDimensionNumbers(ConvolutionOp op, int64_t rank) {
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

LogicalResult ConvolutionOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  auto rhs = cast<RankedTensorType>(getRhs().getType());
  auto result = cast<RankedTensorType>(getType());
  ConvDimensionNumbersAttr dims = getDimensionNumbers();
  int64_t rank = lhs.getRank();
  // convolution_c1
  if (rhs.getRank() != rank || result.getRank() != rank)
    return emitOpError() << "needs tensors of one rank but got " << lhs << ", "
                         << rhs << " and " << result;
  // convolution_c13, convolution_c18, convolution_c20
  if (failed(checkDimensionNumbers(*this, rank)))
    return failure();
  int64_t batch = lhs.getDimSize(dims.getInputBatchDimension());
  int64_t features = lhs.getDimSize(dims.getInputFeatureDimension());
  int64_t kernelIn = rhs.getDimSize(dims.getKernelInputFeatureDimension());
  int64_t kernelOut = rhs.getDimSize(dims.getKernelOutputFeatureDimension());
  int64_t groups = getFeatureGroupCount(), batchGroups = getBatchGroupCount();
  // convolution_c23
  if (groups != 1 && batchGroups != 1)
    return emitOpError() << "needs a group count of 1 for features or batch "
                            "but got "
                         << groups << " and " << batchGroups;
  // convolution_c10, convolution_c15, convolution_c16
  auto divides = [](int64_t by, int64_t size) {
    return ShapedType::isDynamic(size) || size % by == 0;
  };
  if (!divides(batchGroups, batch) || !divides(groups, features) ||
      !divides(groups, kernelOut) || !divides(batchGroups, kernelOut))
    return emitOpError() << "needs group counts that divide the sizes of batch "
                            "and features of "
                         << lhs << " and " << rhs;
  // convolution_c14
  if (ShapedType::isStatic(features) &&
      !sizesAgree(kernelIn, features / groups))
    return emitOpError() << "needs " << features / groups
                         << " input features in the kernel but got "
                         << kernelIn;
  // convolution_c2 to c9
  SmallVector<int64_t> base, kernel;
  for (int64_t dim : dims.getInputSpatialDimensions())
    base.push_back(lhs.getDimSize(dim));
  for (int64_t dim : dims.getKernelSpatialDimensions())
    kernel.push_back(rhs.getDimSize(dim));
  auto window = readWindow(*this, {kernel, getWindowStrides(), getPadding(),
                                   getLhsDilation(), getRhsDilation()});
  if (failed(window))
    return failure();
  // convolution_c25
  SmallVector<int64_t> shape(rank);
  shape[dims.getOutputBatchDimension()] =
      ShapedType::isDynamic(batch) ? batch : batch / batchGroups;
  shape[dims.getOutputFeatureDimension()] = kernelOut;
  for (auto [dim, size] :
       llvm::zip(dims.getOutputSpatialDimensions(), windowShape(base, *window)))
    shape[dim] = size;
  return checkResultShape(*this, shape, result);
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Convolution.cpp.inc"
