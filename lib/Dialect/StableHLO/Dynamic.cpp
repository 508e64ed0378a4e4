//===- Dynamic.cpp - Ops whose shapes are known at run time ---------------===//
//
// Ranks and dimension numbers are checked here. Sizes that are operands are
// compared with types where the static op is made.
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"
#include "Verification.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify::stablehlo;

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Checks that an operand holds one number for each dimension.
static LogicalResult checkNumbers(Operation *op, StringRef what, Value numbers,
                                  int64_t rank) {
  int64_t count = tensorOf(numbers).getDimSize(0);
  if (sizesAgree(count, rank))
    return success();
  return checkLength(op->getLoc(), op->getName().getStringRef(), what, count,
                     rank);
}

LogicalResult DynamicBroadcastInDimOp::verify() {
  auto operand = tensorOf(getOperand()), result = tensorOf(getResult());
  // dynamic_broadcast_in_dim_c1 to c5, c7
  if (failed(checkNumbers(*this, "output_dimensions", getOutputDimensions(),
                          result.getRank())) ||
      failed(checkBroadcast(*this, operand, getBroadcastDimensions(), result)))
    return failure();
  // dynamic_broadcast_in_dim_c8 to c10
  SmallVector<int64_t> known;
  if (auto dims = getKnownExpandingDimensions())
    llvm::append_range(known, *dims);
  if (auto dims = getKnownNonexpandingDimensions())
    llvm::append_range(known, *dims);
  return checkDims(getLoc(), getOperationName(),
                   "known (non-)expanding dimensions", known,
                   operand.getRank());
}

LogicalResult DynamicIotaOp::verify() {
  int64_t rank = tensorOf(getResult()).getRank();
  // dynamic_iota_c1, dynamic_iota_c2
  if (failed(checkNumbers(*this, "output_shape", getOutputShape(), rank)))
    return failure();
  return checkDims(getLoc(), getOperationName(), "iota_dimension",
                   static_cast<int64_t>(getIotaDimension()), rank);
}

LogicalResult DynamicPadOp::verify() {
  auto operand = tensorOf(getOperand()), result = tensorOf(getResult());
  auto value = tensorOf(getPaddingValue());
  int64_t rank = operand.getRank();
  // dynamic_pad_c1
  if (value.getRank() != 0 ||
      value.getElementType() != operand.getElementType())
    return emitOpError() << "needs a scalar of the operand's element type to "
                            "pad with but got "
                         << value << " and " << operand;
  // dynamic_pad_c2
  if (failed(
          checkNumbers(*this, "edge_padding_low", getEdgePaddingLow(), rank)) ||
      failed(checkNumbers(*this, "edge_padding_high", getEdgePaddingHigh(),
                          rank)) ||
      failed(
          checkNumbers(*this, "interior_padding", getInteriorPadding(), rank)))
    return failure();
  return checkSameRank(*this, operand, result);
}

LogicalResult DynamicReshapeOp::verify() {
  auto operand = tensorOf(getOperand()), result = tensorOf(getResult());
  // dynamic_reshape_c3
  if (failed(checkNumbers(*this, "output_shape", getOutputShape(),
                          result.getRank())))
    return failure();
  // dynamic_reshape_c1, dynamic_reshape_c2
  return checkReshape(*this, operand, result);
}

LogicalResult RealDynamicSliceOp::verify() {
  auto operand = tensorOf(getOperand()), result = tensorOf(getResult());
  int64_t rank = operand.getRank();
  if (failed(checkNumbers(*this, "start_indices", getStartIndices(), rank)) ||
      failed(checkNumbers(*this, "limit_indices", getLimitIndices(), rank)) ||
      failed(checkNumbers(*this, "strides", getStrides(), rank)))
    return failure();
  return checkSameRank(*this, operand, result);
}

LogicalResult GetDimensionSizeOp::verify() {
  // get_dimension_size_c1
  return checkDims(getLoc(), getOperationName(), "dim",
                   static_cast<int64_t>(getDimension()),
                   tensorOf(getOperand()).getRank());
}

LogicalResult SetDimensionSizeOp::verify() {
  auto operand = tensorOf(getOperand()), result = tensorOf(getResult());
  int64_t dim = static_cast<int64_t>(getDimension());
  // set_dimension_size_c1
  if (failed(checkDims(getLoc(), getOperationName(), "dim", dim,
                       operand.getRank())) ||
      failed(checkSameRank(*this, operand, result)))
    return failure();
  SmallVector<int64_t> shape(operand.getShape());
  shape[dim] = ShapedType::kDynamic;
  return checkResultShape(*this, shape, result);
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Dynamic.cpp.inc"
