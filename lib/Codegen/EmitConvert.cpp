//===- EmitConvert.cpp - Constants and conversions of registers -----------===//
//
// Converts any element type to any other, rounding once. A float out of an
// integer type's range saturates, and NaN becomes 0, as in XLA.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"

#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

Value scalify::codegen::constantLike(OpBuilder &b, Location loc, Type type,
                                     double value) {
  auto element = cast<FloatType>(getElementTypeOrSelf(type));
  APFloat number(value);
  bool lost;
  number.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                 &lost);
  TypedAttr attr = FloatAttr::get(element, number);
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(b, loc, attr);
}

Value scalify::codegen::constantLike(OpBuilder &b, Location loc, Type type,
                                     int64_t value) {
  TypedAttr attr;
  Type element = getElementTypeOrSelf(type);
  if (element.isIndex())
    attr = b.getIndexAttr(value);
  else
    attr = IntegerAttr::get(element, APInt(element.getIntOrFloatBitWidth(),
                                           static_cast<uint64_t>(value),
                                           /*isSigned=*/true,
                                           /*implicitTrunc=*/true));
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, Attribute(attr));
  return arith::ConstantOp::create(b, loc, attr);
}

Type scalify::codegen::withElement(Type type, Type element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return VectorType::get(vector.getShape(), element);
  return element;
}

static Value floatToInt(OpBuilder &b, Location loc, Value value, Type to) {
  Type type = withElement(value.getType(), registerType(to));
  unsigned width = to.getIntOrFloatBitWidth();
  if (width == 1)
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, value,
                                 constantLike(b, loc, value.getType(), 0.0));
  // Out of range saturates and NaN is 0, unlike the hardware's results.
  bool isUnsigned = to.isUnsignedInteger();
  double low = isUnsigned ? 0.0 : -std::ldexp(1.0, width - 1);
  double top = std::ldexp(1.0, isUnsigned ? width : width - 1);
  auto c = [&](double x) { return constantLike(b, loc, value.getType(), x); };
  auto compare = [&](arith::CmpFPredicate p, double x) {
    return arith::CmpFOp::create(b, loc, p, value, c(x));
  };
  Value tooLow = compare(arith::CmpFPredicate::OLT, low);
  Value tooHigh = compare(arith::CmpFPredicate::OGE, top);
  Value isNaN =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, value, value);
  Value bad = arith::OrIOp::create(
      b, loc, arith::OrIOp::create(b, loc, tooLow, tooHigh), isNaN);
  Value safe = arith::SelectOp::create(b, loc, bad, c(0.0), value);
  Value result;
  if (isUnsigned)
    result = arith::FPToUIOp::create(b, loc, type, safe);
  else
    result = arith::FPToSIOp::create(b, loc, type, safe);
  int64_t most =
      isUnsigned ? -1 : (width == 64 ? INT64_MAX : (1ll << (width - 1)) - 1);
  int64_t least =
      isUnsigned ? 0 : (width == 64 ? INT64_MIN : -(1ll << (width - 1)));
  result = arith::SelectOp::create(b, loc, tooHigh,
                                   constantLike(b, loc, type, most), result);
  return arith::SelectOp::create(b, loc, tooLow,
                                 constantLike(b, loc, type, least), result);
}

static Value intToInt(OpBuilder &b, Location loc, Value value, Type from,
                      Type to) {
  Type type = withElement(value.getType(), registerType(to));
  unsigned have = from.getIntOrFloatBitWidth();
  unsigned want = to.getIntOrFloatBitWidth();
  if (want == 1 && have > 1)
    return arith::CmpIOp::create(
        b, loc, arith::CmpIPredicate::ne, value,
        constantLike(b, loc, value.getType(), int64_t(0)));
  if (have == want)
    return value;
  if (want < have)
    return arith::TruncIOp::create(b, loc, type, value);
  if (stablehlo::hasUnsignedElements(from))
    return arith::ExtUIOp::create(b, loc, type, value);
  return arith::ExtSIOp::create(b, loc, type, value);
}

/// Converts an integer to a float of type `type`, rounding once. If the float
/// is rounded again, the bits that F64 does not hold are first joined into one
/// that it does (a sticky bit). The value then stays on the same side of every
/// number of fewer bits.
static Value intToFloat(OpBuilder &b, Location loc, Value value, Type from,
                        Type type, bool isRoundedAgain) {
  bool isUnsigned = stablehlo::hasUnsignedElements(from);
  if (isRoundedAgain && from.getIntOrFloatBitWidth() == 64) {
    auto c = [&](int64_t x) {
      return constantLike(b, loc, value.getType(), x);
    };
    constexpr int64_t kJoined = 12, kExact = int64_t(1) << 53;
    Value low = arith::AndIOp::create(b, loc, value, c((1 << kJoined) - 1));
    Value isWhole =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, low, c(0));
    Value joined =
        arith::SelectOp::create(b, loc, isWhole, c(0), c(1 << (kJoined - 1)));
    joined = arith::OrIOp::create(
        b, loc,
        arith::AndIOp::create(b, loc, value, c(-(int64_t(1) << kJoined))),
        joined);
    // One comparison covers both signs.
    Value size =
        isUnsigned
            ? value
            : arith::AddIOp::create(b, loc, value, c(kExact)).getResult();
    Value isExact =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, size,
                              c(isUnsigned ? kExact : 2 * kExact));
    value = arith::SelectOp::create(b, loc, isExact, value, joined);
  }
  if (isUnsigned)
    return arith::UIToFPOp::create(b, loc, type, value);
  return arith::SIToFPOp::create(b, loc, type, value);
}

/// Converts F64 to F32 for further rounding. An inexact value becomes the
/// neighbour with an odd last bit, which is neither a number of fewer bits nor
/// half-way between two (Boldo and Melquiond, "Emulation of FMA and correctly
/// rounded sums: proved algorithms using rounding to odd", 2008).
static Value roundToOdd(OpBuilder &b, Location loc, Value value) {
  Type f32 = withElement(value.getType(), b.getF32Type());
  Type i32 = withElement(value.getType(), b.getI32Type());
  Value near = arith::TruncFOp::create(b, loc, f32, value);
  Value back = arith::ExtFOp::create(b, loc, value.getType(), near);
  auto compare = [&](arith::CmpFPredicate p, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, p, x, y);
  };
  Value isOff = compare(arith::CmpFPredicate::ONE, back, value);
  Value isBeyond =
      compare(arith::CmpFPredicate::OGT, math::AbsFOp::create(b, loc, back),
              math::AbsFOp::create(b, loc, value));
  Value word = arith::BitcastOp::create(b, loc, i32, near);
  Value inner = arith::SubIOp::create(
      b, loc, word, arith::ExtUIOp::create(b, loc, i32, isBeyond));
  Value odd = arith::OrIOp::create(b, loc, inner,
                                   constantLike(b, loc, i32, int64_t(1)));
  word = arith::SelectOp::create(b, loc, isOff, odd, word);
  return arith::BitcastOp::create(b, loc, f32, word);
}

Value scalify::codegen::emitConvert(OpBuilder &b, Location loc, Value value,
                                    Type from, Type to, Machine machine) {
  if (from == to)
    return value;
  if (from.isInteger() && to.isInteger())
    return intToInt(b, loc, value, from, to);
  if (hasFP8Elements(from)) {
    value = decodeFloat8(b, loc, value, from, machine);
    // Registers hold 16-bit floats as F32, and both hold FP8 exactly.
    if (to.isBF16() || to.isF16())
      return value;
    from = b.getF32Type();
  }
  if (to.isInteger())
    return floatToInt(b, loc, value, to);
  // Narrow formats are rounded from F32, which holds integers of 16 bits.
  bool isNarrow = to.getIntOrFloatBitWidth() < 32;
  bool isLong = from.isInteger() && from.getIntOrFloatBitWidth() > 16;
  bool isWide = to.isF64() || (isNarrow && (isLong || from.isF64()));
  Type type = withElement(value.getType(),
                          isWide ? Type(b.getF64Type()) : b.getF32Type());
  if (from.isInteger())
    value = intToFloat(b, loc, value, from, type, isNarrow);
  else if (isWide && !from.isF64())
    value = arith::ExtFOp::create(b, loc, type, value);
  else if (to.isF32() && from.isF64())
    value = arith::TruncFOp::create(b, loc, type, value);
  if (isWide && isNarrow)
    value = roundToOdd(b, loc, value);
  if (hasFP8Elements(to))
    return encodeFloat8(b, loc, value, to, /*saturate=*/false, machine);
  return roundTo(b, loc, value, to, machine);
}

Value scalify::codegen::toIndex(OpBuilder &b, Location loc, Value value,
                                Type element) {
  Type type = withElement(value.getType(), b.getIndexType());
  if (stablehlo::hasUnsignedElements(element))
    return arith::IndexCastUIOp::create(b, loc, type, value);
  return arith::IndexCastOp::create(b, loc, type, value);
}
