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
