//===- Casts.cpp - Narrow float casts -------------------------------------===//
//
// x86 has no FP8 and, before AVX-512, no BF16 instructions. Both casts consist
// of 32-bit operations on numbers and their bits, which vectorise. They round
// to nearest even, and equal ml_dtypes bit for bit but for the payload of a
// NaN. A GPU has instructions for them (CastsGPU.cpp).
//
//===----------------------------------------------------------------------===//

#include "CastsGPU.h"
#include "KernelEmitter.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

static Type like(Value shaped, Type element) {
  if (auto vector = dyn_cast<VectorType>(shaped.getType()))
    return VectorType::get(vector.getShape(), element);
  return element;
}

Type scalify::codegen::registerType(Type type) {
  if (type.isInteger())
    return IntegerType::get(type.getContext(), type.getIntOrFloatBitWidth());
  unsigned width = type.getIntOrFloatBitWidth();
  if (width == 8)
    return IntegerType::get(type.getContext(), 8);
  return width == 16 ? Float32Type::get(type.getContext()) : type;
}

Type scalify::codegen::storageType(Type type) {
  if (type.isInteger(1))
    return IntegerType::get(type.getContext(), 8);
  if (type.isBF16())
    return IntegerType::get(type.getContext(), 16);
  return type.isF16() ? type : registerType(type);
}

namespace {
/// Integer arithmetic on the bit patterns of f32 values.
struct Bits {
  OpBuilder &b;
  Location loc;
  Value shape;

  Type i32() { return like(shape, b.getI32Type()); }
  Value c(int64_t value) { return constantLike(b, loc, i32(), value); }
  Value of(Value f) { return arith::BitcastOp::create(b, loc, i32(), f); }
  Value toFloat(Value i) {
    return arith::BitcastOp::create(b, loc, like(shape, b.getF32Type()), i);
  }
  Value band(Value x, int64_t y) {
    return arith::AndIOp::create(b, loc, x, c(y));
  }
  Value bor(Value x, Value y) { return arith::OrIOp::create(b, loc, x, y); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value shr(Value x, int64_t n) {
    return arith::ShRUIOp::create(b, loc, x, c(n));
  }
  Value shl(Value x, int64_t n) {
    return arith::ShLIOp::create(b, loc, x, c(n));
  }
  Value compare(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  }
  /// The flags of the value that do not depend on its format. Comparisons of
  /// floats are one instruction in AVX2, those of magnitudes as integers two.
  QuantizeResult classify() {
    QuantizeResult result;
    result.isZero = compare(arith::CmpFPredicate::OEQ, shape, toFloat(c(0)));
    result.isNaN = compare(arith::CmpFPredicate::UNO, shape, shape);
    return result;
  }
  Value gt(Value x, int64_t y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, x, c(y));
  }
  Value select(Value p, Value x, Value y) {
    return arith::SelectOp::create(b, loc, p, x, y);
  }
  /// Rounds x to nearest even at bit `n`, without shifting it.
  Value roundAt(Value x, int64_t n) {
    Value odd = band(shr(x, n), 1);
    return add(add(x, c((int64_t(1) << (n - 1)) - 1)), odd);
  }
};

/// Parameters of the two FP8 formats, as patterns of F32 but for the number of
/// mantissa bits and the codes.
struct Float8 {
  int64_t mantissaBits, smallestExponent, largestNumber, nextNumber;
  /// The least magnitude that rounds beyond the largest number, and the largest
  /// one that rounds to zero.
  int64_t leastSaturated, mostFlushed;
  /// The code of a NaN.
  int64_t nan;

  static Float8 get(Type type) {
    // Of the two neighbours of 464 = 448 + 16 the even one is 448, the largest
    // number of E4M3; of those of 61440 it is 65536, beyond E5M2's.
    if (isa<Float8E4M3FNType>(type))
      return {3,          0x3c800000, 0x43e00000, 0x43f00000,
              0x43e80001, 0x3a800000, 127};
    return {2, 0x38800000, 0x47600000, 0x47800000, 0x47700000, 0x37000000, 126};
  }
  /// The bits of an F32 mantissa that the format has not.
  int64_t dropped() const { return 23 - mantissaBits; }
};

/// A magnitude rounded to a format without a largest number, as its code and as
/// F32. The code of a NaN has no meaning.
struct Rounded {
  Value code, number;
};
} // namespace

static constexpr int64_t kInfinity = 0x7f800000, kNaN = 0x7fc00000,
                         kLargestF16 = 0x477fe000, kLargestBF16 = 0x7f7f0000;

/// Returns the F32 bit pattern of a sixteenth of the largest finite value.
static int64_t sixteenthOf(Type type) {
  int64_t largest = 0x47600000; // E5M2
  if (isa<Float8E4M3FNType>(type))
    largest = 0x43e00000;
  else if (type.isF16())
    largest = kLargestF16;
  else if (type.isBF16())
    largest = kLargestBF16;
  return largest - (4 << 23);
}

/// Adds a power of two whose ulp is the distance of the format's numbers at
/// this magnitude: the sum rounds to that ulp, and its lower bits count ulps.
/// Subnormals have the distance of the smallest normal numbers.
static Rounded roundMagnitude(Bits &bits, Value magnitude,
                              const Float8 &format) {
  OpBuilder &b = bits.b;
  Value exponent = bits.band(bits.of(magnitude), kInfinity);
  exponent = arith::MaxSIOp::create(b, bits.loc, exponent,
                                    bits.c(format.smallestExponent));
  Value power = bits.add(exponent, bits.c(format.dropped() << 23));
  Value sum =
      arith::AddFOp::create(b, bits.loc, magnitude, bits.toFloat(power));
  Value binades = bits.sub(bits.shr(exponent, format.dropped()),
                           bits.c(format.smallestExponent >> format.dropped()));
  return {bits.add(bits.sub(bits.of(sum), power), binades),
          arith::SubFOp::create(b, bits.loc, sum, bits.toFloat(power))};
}

static QuantizeResult encode(OpBuilder &b, Location loc, Value value, Type type,
                             bool saturate) {
  Value word = Bits{b, loc, value}.of(value);
  if (saturate) {
    // x + 0 x is x, or NaN for an infinity.
    Value zero = constantLike(b, loc, value.getType(), 0.0);
    value = math::FmaOp::create(b, loc, value, zero, value);
  }
  Bits bits{b, loc, value};
  Float8 format = Float8::get(type);
  auto number = [&](int64_t pattern) { return bits.toFloat(bits.c(pattern)); };
  QuantizeResult result = bits.classify();
  Value magnitude = bits.toFloat(bits.band(bits.of(value), 0x7fffffff));
  result.saturated = bits.compare(arith::CmpFPredicate::OGE, magnitude,
                                  number(format.leastSaturated));
  result.flushed = arith::AndIOp::create(
      b, loc,
      bits.compare(arith::CmpFPredicate::OLE, magnitude,
                   number(format.mostFlushed)),
      bits.compare(arith::CmpFPredicate::UNE, value, number(0)));
  result.isTop = bits.compare(arith::CmpFPredicate::UGE, magnitude,
                              number(sixteenthOf(type)));
  // The next number's code is that of an infinity or of a NaN. A NaN is not
  // larger, and stays.
  Value limit = number(saturate ? format.largestNumber : format.nextNumber);
  Value isBeyond = bits.compare(arith::CmpFPredicate::OLT, limit, magnitude);
  Rounded rounded =
      roundMagnitude(bits, bits.select(isBeyond, limit, magnitude), format);
  result.number = bits.toFloat(
      bits.bor(bits.of(rounded.number), bits.band(word, 0x80000000)));
  Value code = bits.select(result.isNaN, bits.c(format.nan), rounded.code);
  Value sign = bits.band(bits.shr(word, 24), 0x80);
  result.code = arith::TruncIOp::create(b, loc, like(value, b.getI8Type()),
                                        bits.bor(code, sign));
  return result;
}

Value scalify::codegen::encodeFloat8(OpBuilder &b, Location loc, Value value,
                                     Type type, bool saturate,
                                     Machine machine) {
  if (machine == Machine::GPU)
    return instructions::encodeFloat8(b, loc, value, type, saturate).code;
  return encode(b, loc, value, type, saturate).code;
}

Value scalify::codegen::decodeFloat8(OpBuilder &b, Location loc, Value code,
                                     Type type, Machine machine) {
  if (machine == Machine::GPU)
    return instructions::decodeFloat8(b, loc, code, type);
  Type f32 = like(code, b.getF32Type());
  if (isa<Float8E5M2Type>(type)) {
    // E5M2 is the upper byte of a half.
    Type i16 = like(code, b.getI16Type());
    Value wide = arith::ExtUIOp::create(b, loc, i16, code);
    Value half = arith::ShLIOp::create(b, loc, wide,
                                       constantLike(b, loc, i16, int64_t(8)));
    half = arith::BitcastOp::create(b, loc, like(code, b.getF16Type()), half);
    return arith::ExtFOp::create(b, loc, f32, half);
  }
  Bits bits{b, loc, code};
  Value word = arith::ExtUIOp::create(b, loc, bits.i32(), code);
  Value magnitude = bits.band(word, 0x7f);
  Value normal = bits.add(bits.shl(magnitude, 20), bits.c(120ll << 23));
  Value subnormal = arith::MulFOp::create(
      b, loc, arith::SIToFPOp::create(b, loc, f32, magnitude),
      constantLike(b, loc, f32, 0x1p-9));
  Value isSmall = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                        magnitude, bits.c(8));
  Value result = bits.select(isSmall, bits.of(subnormal), normal);
  Value isNaN = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                      magnitude, bits.c(127));
  result = bits.select(isNaN, bits.c(kNaN), result);
  Value sign = bits.shl(bits.band(word, 0x80), 24);
  return bits.toFloat(bits.bor(result, sign));
}

// Returns the rounded BF16 in the upper half of a word.
static Value roundBF16(Bits &bits, Value word) {
  Value rounded = bits.roundAt(word, 16);
  Value magnitude = bits.band(word, 0x7fffffff);
  Value quiet = bits.bor(word, bits.c(0x400000));
  rounded = bits.select(bits.gt(magnitude, kInfinity), quiet, rounded);
  return bits.band(rounded, 0xffff0000);
}

Value scalify::codegen::roundTo(OpBuilder &b, Location loc, Value value,
                                Type type, Machine machine) {
  if (machine == Machine::GPU && (type.isF16() || type.isBF16()))
    return instructions::round16(b, loc, value, type);
  if (type.isF16()) {
    Value half =
        arith::TruncFOp::create(b, loc, like(value, b.getF16Type()), value);
    return arith::ExtFOp::create(b, loc, value.getType(), half);
  }
  if (!type.isBF16())
    return value;
  Bits bits{b, loc, value};
  return bits.toFloat(roundBF16(bits, bits.of(value)));
}

Value scalify::codegen::toRegister(OpBuilder &b, Location loc, Value stored,
                                   Type type, Machine machine) {
  if (type.isInteger(1))
    return arith::CmpIOp::create(
        b, loc, arith::CmpIPredicate::ne, stored,
        constantLike(b, loc, stored.getType(), int64_t(0)));
  if (type.isF16())
    return arith::ExtFOp::create(b, loc, like(stored, b.getF32Type()), stored);
  if (!type.isBF16())
    return stored;
  if (machine == Machine::GPU)
    return instructions::unpackBF16(b, loc, stored);
  Bits bits{b, loc, stored};
  Value word = arith::ExtUIOp::create(b, loc, bits.i32(), stored);
  return bits.toFloat(bits.shl(word, 16));
}

// A value in a register is exact in its type, so storing rounds nothing.
Value scalify::codegen::toStorage(OpBuilder &b, Location loc, Value value,
                                  Type type, Machine machine) {
  if (type.isInteger(1))
    return arith::ExtUIOp::create(b, loc, like(value, b.getI8Type()), value);
  if (type.isF16())
    return arith::TruncFOp::create(b, loc, like(value, b.getF16Type()), value);
  if (!type.isBF16())
    return value;
  if (machine == Machine::GPU)
    return instructions::packBF16(b, loc, value);
  Bits bits{b, loc, value};
  return arith::TruncIOp::create(b, loc, like(value, b.getI16Type()),
                                 bits.shr(bits.of(value), 16));
}

// Registers hold F16 and BF16 as F32 values. Overflow is detected by rounding
// first, which gives an infinity.
static QuantizeResult quantize16(OpBuilder &b, Location loc, Value value,
                                 Type type, Machine machine) {
  Bits bits{b, loc, value};
  Value word = bits.of(value);
  Value magnitude = bits.band(word, 0x7fffffff);
  Value rounded = bits.of(roundTo(b, loc, value, type, machine));
  Value size = bits.band(rounded, 0x7fffffff);
  auto compare = [&](arith::CmpIPredicate predicate, Value x, int64_t y) {
    return arith::CmpIOp::create(b, loc, predicate, x, bits.c(y));
  };
  QuantizeResult result = bits.classify();
  // A cast counts infinities as NaN, as where they become one.
  result.isNaN = compare(arith::CmpIPredicate::sge, magnitude, kInfinity);
  result.saturated = arith::AndIOp::create(
      b, loc, compare(arith::CmpIPredicate::eq, size, kInfinity),
      compare(arith::CmpIPredicate::slt, magnitude, kInfinity));
  result.flushed =
      arith::AndIOp::create(b, loc, compare(arith::CmpIPredicate::eq, size, 0),
                            compare(arith::CmpIPredicate::ne, magnitude, 0));
  int64_t largest = type.isF16() ? kLargestF16 : kLargestBF16;
  Value sign = bits.band(word, 0x80000000);
  result.code = bits.toFloat(
      bits.select(result.saturated, bits.bor(bits.c(largest), sign), rounded));
  return result;
}

QuantizeResult scalify::codegen::quantizeNarrow(OpBuilder &b, Location loc,
                                                Value scaled, Type type,
                                                Machine machine) {
  bool is16 = type.getIntOrFloatBitWidth() == 16;
  if (!is16 && machine != Machine::GPU)
    return encode(b, loc, scaled, type, /*saturate=*/true);
  QuantizeResult result = is16
                              ? quantize16(b, loc, scaled, type, machine)
                              : instructions::encodeFloat8(b, loc, scaled, type,
                                                           /*saturate=*/true);
  Bits bits{b, loc, scaled};
  Value magnitude = bits.toFloat(bits.band(bits.of(scaled), 0x7fffffff));
  result.isTop = bits.compare(arith::CmpFPredicate::UGE, magnitude,
                              bits.toFloat(bits.c(sixteenthOf(type))));
  return result;
}

Value scalify::codegen::decodeNarrow(OpBuilder &b, Location loc, Value code,
                                     Type type, Machine machine) {
  return type.getIntOrFloatBitWidth() == 16
             ? code
             : decodeFloat8(b, loc, code, type, machine);
}
