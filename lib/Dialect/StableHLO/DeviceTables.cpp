//===- DeviceTables.cpp - Numbers that depend on the device ---------------===//

#include "scalify/Dialect/StableHLO/DeviceTables.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

using namespace mlir;
using namespace scalify;

Value scalify::lookUp(OpBuilder &builder, Location loc,
                      ArrayRef<int32_t> perDevice, int64_t numDevices,
                      bool isScalar) {
  Type i32 = builder.getI32Type();
  int64_t width = static_cast<int64_t>(perDevice.size()) / numDevices;
  Value table = stablehlo::ConstantOp::create(
      builder, loc,
      DenseIntElementsAttr::get(RankedTensorType::get({numDevices, width}, i32),
                                perDevice));
  Value id = stablehlo::PartitionIdOp::create(
      builder, loc,
      RankedTensorType::get({}, builder.getIntegerType(32, false)));
  id = stablehlo::ConvertOp::create(builder, loc,
                                    RankedTensorType::get({}, i32), id);
  Value zero = stablehlo::ConstantOp::create(
      builder, loc,
      DenseIntElementsAttr::get(RankedTensorType::get({}, i32), {0}));
  Value row = stablehlo::DynamicSliceOp::create(
      builder, loc, RankedTensorType::get({1, width}, i32), table,
      ValueRange{id, zero}, builder.getDenseI64ArrayAttr({1, width}));
  auto type = isScalar ? RankedTensorType::get({}, i32)
                       : RankedTensorType::get({width}, i32);
  return stablehlo::ReshapeOp::create(builder, loc, type, row);
}
