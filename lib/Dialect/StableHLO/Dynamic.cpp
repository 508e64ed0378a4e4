//===- Dynamic.cpp - Ops whose shapes are known at run time ---------------===//

#include "Assembly.h"
#include "Verification.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify::stablehlo;

LogicalResult GetDimensionSizeOp::verify() {
  // get_dimension_size_c1
  return checkDims(getLoc(), getOperationName(), "dim",
                   static_cast<int64_t>(getDimension()),
                   cast<RankedTensorType>(getOperand().getType()).getRank());
}

LogicalResult SetDimensionSizeOp::verify() {
  // set_dimension_size_c1
  return checkDims(getLoc(), getOperationName(), "dim",
                   static_cast<int64_t>(getDimension()),
                   cast<RankedTensorType>(getOperand().getType()).getRank());
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Dynamic.cpp.inc"
