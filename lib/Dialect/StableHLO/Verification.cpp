//===- Verification.cpp - Checks common to several families ---------------===//

#include "Verification.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;

LogicalResult scalify::stablehlo::checkDims(std::optional<Location> location,
                                            StringRef opName, StringRef what,
                                            ArrayRef<int64_t> dims,
                                            int64_t rank, bool unique) {
  llvm::SmallSet<int64_t, 8> seen;
  for (int64_t dim : dims) {
    if (dim < 0 || dim >= rank)
      return emitOptionalError(location, "'", opName, "' op needs ", what,
                               " within the rank ", rank, " but got ", dim);
    if (unique && !seen.insert(dim).second)
      return emitOptionalError(location, "'", opName, "' op names ", what, " ",
                               dim, " twice");
  }
  return success();
}

LogicalResult scalify::stablehlo::checkLength(std::optional<Location> location,
                                              StringRef opName, StringRef what,
                                              size_t length, int64_t rank) {
  if (static_cast<int64_t>(length) == rank)
    return success();
  return emitOptionalError(location, "'", opName, "' op needs ", rank,
                           " entries of ", what, " but got ", length);
}

LogicalResult scalify::stablehlo::checkResultShape(Operation *op,
                                                   ArrayRef<int64_t> shape,
                                                   RankedTensorType result) {
  if (succeeded(verifyCompatibleShape(shape, result.getShape())))
    return success();
  return op->emitOpError() << "needs a result of shape "
                           << RankedTensorType::get(shape,
                                                    result.getElementType())
                           << " but got " << result;
}

/// Checks that a result has the operand's element type, but for quantized ones.
static LogicalResult checkElements(Operation *op, RankedTensorType operand,
                                   RankedTensorType result) {
  if (operand.getElementType() == result.getElementType() ||
      isa<quant::QuantizedType>(operand.getElementType()))
    return success();
  return op->emitOpError() << "needs one element type but got " << operand
                           << " and " << result;
}

LogicalResult scalify::stablehlo::checkSameRank(Operation *op,
                                                RankedTensorType operand,
                                                RankedTensorType result) {
  if (failed(checkElements(op, operand, result)))
    return failure();
  if (operand.getRank() == result.getRank())
    return success();
  return op->emitOpError() << "needs a result of the operand's rank but got "
                           << operand << " and " << result;
}

LogicalResult scalify::stablehlo::checkBroadcast(Operation *op,
                                                 RankedTensorType operand,
                                                 ArrayRef<int64_t> dims,
                                                 RankedTensorType result) {
  StringRef name = op->getName().getStringRef();
  // broadcast_in_dim_c1
  if (failed(checkElements(op, operand, result)))
    return failure();
  // broadcast_in_dim_c2 to c4
  if (failed(checkLength(op->getLoc(), name, "dims", dims.size(),
                         operand.getRank())) ||
      failed(checkDims(op->getLoc(), name, "dims", dims, result.getRank())))
    return failure();
  // broadcast_in_dim_c5
  for (auto [i, dim] : llvm::enumerate(dims))
    if (operand.getDimSize(i) != 1 &&
        !sizesAgree(operand.getDimSize(i), result.getDimSize(dim)))
      return op->emitOpError()
             << "cannot broadcast dimension " << i << " of size "
             << operand.getDimSize(i) << " to dimension " << dim << " of size "
             << result.getDimSize(dim);
  return success();
}

LogicalResult scalify::stablehlo::checkReshape(Operation *op,
                                               RankedTensorType operand,
                                               RankedTensorType result) {
  // reshape_c1
  if (failed(checkElements(op, operand, result)))
    return failure();
  // reshape_c2
  if (operand.hasStaticShape() && result.hasStaticShape() &&
      operand.getNumElements() != result.getNumElements())
    return op->emitOpError() << "cannot turn " << operand.getNumElements()
                             << " elements into " << result.getNumElements();
  return success();
}

LogicalResult
scalify::stablehlo::checkPrecisions(Operation *op,
                                    std::optional<ArrayAttr> precisions) {
  if (!precisions || precisions->empty() || precisions->size() == 2)
    return success();
  return op->emitOpError() << "needs one precision per operand but got "
                           << precisions->size();
}

LogicalResult scalify::stablehlo::checkRegion(Operation *op, Region &region,
                                              StringRef what,
                                              TypeRange arguments,
                                              TypeRange results) {
  Block &block = region.front();
  if (!detail::areCompatibleTypes(block.getArgumentTypes(), arguments)) {
    InFlightDiagnostic diag = op->emitOpError()
                              << "needs a " << what << " with arguments (";
    diag << arguments << ") but got (" << block.getArgumentTypes() << ")";
    return diag;
  }
  auto end = block.empty() ? ReturnOp() : dyn_cast<ReturnOp>(block.back());
  if (!end)
    return op->emitOpError()
           << "needs a " << what << " that ends with 'stablehlo.return'";
  if (!detail::areCompatibleTypes(end.getOperandTypes(), results)) {
    InFlightDiagnostic diag = op->emitOpError()
                              << "needs a " << what << " that returns (";
    diag << results << ") but got (" << end.getOperandTypes() << ")";
    diag.attachNote(end.getLoc()) << "returned here";
    return diag;
  }
  return success();
}

LogicalResult scalify::stablehlo::checkReducer(Operation *op, Region &region,
                                               ArrayRef<Type> scalars) {
  SmallVector<Type> arguments(scalars);
  llvm::append_range(arguments, scalars);
  return checkRegion(op, region, "reduction region", arguments, scalars);
}

static bool isPromotable(Type from, Type to) {
  if (from == to || isa<quant::QuantizedType>(from))
    return true;
  if (auto complex = dyn_cast<ComplexType>(from)) {
    auto wide = dyn_cast<ComplexType>(to);
    return wide &&
           isPromotable(complex.getElementType(), wide.getElementType());
  }
  if (isa<FloatType>(from))
    return isa<FloatType>(to) &&
           from.getIntOrFloatBitWidth() <= to.getIntOrFloatBitWidth();
  auto narrow = dyn_cast<IntegerType>(from), wide = dyn_cast<IntegerType>(to);
  return narrow && wide && narrow.getWidth() > 1 &&
         narrow.getSignedness() == wide.getSignedness() &&
         narrow.getWidth() <= wide.getWidth();
}

LogicalResult scalify::stablehlo::checkPromotable(Operation *op, Type value,
                                                  Type accumulator) {
  Type element = getElementTypeOrSelf(accumulator);
  if (isPromotable(getElementTypeOrSelf(value), element))
    return success();
  return op->emitOpError() << "cannot reduce " << value << " in elements of "
                           << element;
}
