//===- AmaxScale.cpp - Scales measured in the step ------------------------===//

#include "scalify/Precision/AmaxScale.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/APFloat.h"

using namespace mlir;
using namespace scalify;

double scalify::getLargestFinite(FloatType format) {
  APFloat largest = APFloat::getLargest(format.getFloatSemantics());
  bool loses;
  largest.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  return largest.convertToDouble();
}

template <typename T>
static Value makeScalar(OpBuilder &builder, Location loc, Type element, T x) {
  auto type = RankedTensorType::get({}, element);
  return stablehlo::ConstantOp::create(
      builder, loc, cast<ElementsAttr>(DenseElementsAttr::get(type, x)));
}

/// max |value| over all elements, as f32.
static Value buildAmax(OpBuilder &builder, Location loc, Value value) {
  Value magnitude = stablehlo::AbsOp::create(builder, loc, value);
  Type element = cast<ShapedType>(value.getType()).getElementType();
  if (!element.isF32())
    magnitude = stablehlo::ConvertOp::create(builder, loc, magnitude,
                                             builder.getF32Type());
  Value zero = makeScalar(builder, loc, builder.getF32Type(), 0.0f);
  auto dims = llvm::to_vector(llvm::seq<int64_t>(
      0, cast<ShapedType>(value.getType()).getRank()));
  auto reduce =
      stablehlo::ReduceOp::create(builder, loc, magnitude, zero, dims);
  OpBuilder::InsertionGuard guard(builder);
  Type scalar = zero.getType();
  Block *body = builder.createBlock(&reduce.getBody(), {}, {scalar, scalar},
                                    {loc, loc});
  Value larger = stablehlo::MaxOp::create(builder, loc, body->getArgument(0),
                                          body->getArgument(1));
  stablehlo::ReturnOp::create(builder, loc, larger);
  return reduce->getResult(0);
}

Value scalify::buildAmaxScale(OpBuilder &builder, Location loc, Value value,
                              FloatType format) {
  Type f32 = builder.getF32Type(), i32 = builder.getI32Type();
  Value amax = buildAmax(builder, loc, value);
  Value largest = makeScalar(builder, loc, f32,
                             static_cast<float>(getLargestFinite(format)));
  Value ratio = stablehlo::DivOp::create(builder, loc, amax, largest);
  // Rounds up to a power of two on the bits: any mantissa carries into the
  // exponent, and the mantissa is dropped.
  auto bitsType = RankedTensorType::get({}, i32);
  Value bits =
      stablehlo::BitcastConvertOp::create(builder, loc, bitsType, ratio);
  Value mantissa = makeScalar<int32_t>(builder, loc, i32, 0x7fffff);
  Value exponent = makeScalar<int32_t>(builder, loc, i32, 0x7f800000);
  Value carried = stablehlo::AddOp::create(builder, loc, bits, mantissa);
  Value rounded = stablehlo::AndOp::create(builder, loc, carried, exponent);
  Value scale = stablehlo::BitcastConvertOp::create(builder, loc,
                                                    amax.getType(), rounded);
  // Powers of two below 2^-100 would not have an inverse with headroom.
  Value least = makeScalar(builder, loc, f32, 0x1p-100f);
  Value most = makeScalar(builder, loc, f32, 0x1p100f);
  using stablehlo::ComparisonDirection;
  Value isSmall = stablehlo::CompareOp::create(builder, loc, scale, least,
                                               ComparisonDirection::LT);
  Value isLarge = stablehlo::CompareOp::create(builder, loc, scale, most,
                                               ComparisonDirection::GT);
  Value outside = stablehlo::OrOp::create(builder, loc, isSmall, isLarge);
  Value one = makeScalar(builder, loc, f32, 1.0f);
  return stablehlo::SelectOp::create(builder, loc, outside, one, scale);
}
