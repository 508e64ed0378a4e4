//===- CastsGPU.cpp - Narrow float casts by GPU instructions --------------===//
//
// All casts work on pairs, as the instructions of sm_89 and later do. Decoding
// FP8 goes through F16. Saturated and flushed values are detected on the F32
// value, since each is a range of it. A NaN becomes the code 0x7F, without the
// sign that the CPU's casts keep.
//
//===----------------------------------------------------------------------===//

#include "CastsGPU.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

static Type like(Value shaped, Type element) {
  if (auto vector = dyn_cast<VectorType>(shaped.getType()))
    return VectorType::get(vector.getShape(), element);
  return element;
}

namespace {
/// Ranges of magnitudes, as bit patterns of F32 values.
struct Ranges {
  int64_t least;    // the least that rounds beyond the largest number
  int64_t vanishes; // the largest that rounds to zero
  int64_t overflow; // the code of an overflow without saturation

  static Ranges get(Type type) {
    if (isa<Float8E4M3FNType>(type))
      return {0x43e80001, 0x3a800000, 0x7f}; // above 464; 2^-10
    return {0x47700000, 0x37000000, 0x7c};   // 61440, a tie; 2^-17
  }
};
} // namespace

static constexpr int64_t kInfinity = 0x7f800000;

// PTX puts its second operand into the lower byte.
static Value encodePair(OpBuilder &b, Location loc, Value low, Value high,
                        Type type) {
  return NVVM::ConvertF32x2ToF8x2Op::create(
      b, loc, b.getI16Type(), high, low, NVVM::FPRoundingMode::RN,
      NVVM::SaturationMode::SATFINITE, /*relu=*/false, type);
}

static Value encodePairs(OpBuilder &b, Location loc, Value value, Type type) {
  auto vector = dyn_cast<VectorType>(value.getType());
  if (!vector) {
    Value zero = constantLike(b, loc, value.getType(), 0.0);
    return arith::TruncIOp::create(b, loc, b.getI8Type(),
                                   encodePair(b, loc, value, zero, type));
  }
  SmallVector<Value> pairs;
  for (int64_t i = 0; i < vector.getDimSize(0); i += 2) {
    Value low = vector::ExtractOp::create(b, loc, value, i);
    Value high = vector::ExtractOp::create(b, loc, value, i + 1);
    pairs.push_back(encodePair(b, loc, low, high, type));
  }
  int64_t count = pairs.size();
  Value words = vector::FromElementsOp::create(
      b, loc, VectorType::get({count}, b.getI16Type()), pairs);
  return vector::BitCastOp::create(
      b, loc, VectorType::get({2 * count}, b.getI8Type()), words);
}

QuantizeResult instructions::encodeFloat8(OpBuilder &b, Location loc,
                                          Value value, Type type,
                                          bool saturate) {
  using P = arith::CmpIPredicate;
  Type i32 = like(value, b.getI32Type()), i8 = like(value, b.getI8Type());
  auto c = [&](int64_t x) { return constantLike(b, loc, i32, x); };
  auto compare = [&](P predicate, Value x, int64_t y) -> Value {
    return arith::CmpIOp::create(b, loc, predicate, x, c(y));
  };
  auto both = [&](Value x, Value y) -> Value {
    return arith::AndIOp::create(b, loc, x, y);
  };
  Ranges ranges = Ranges::get(type);
  if (saturate) {
    // x + 0 x is x, or NaN for an infinity, which the instruction would clip.
    Value zero = constantLike(b, loc, value.getType(), 0.0);
    value = math::FmaOp::create(b, loc, value, zero, value);
  }
  Value word = arith::BitcastOp::create(b, loc, i32, value);
  Value magnitude = both(word, c(0x7fffffff));
  QuantizeResult result;
  result.isNaN = compare(P::sgt, magnitude, kInfinity);
  result.saturated = both(compare(P::sge, magnitude, ranges.least),
                          compare(P::sle, magnitude, kInfinity));
  result.isZero = compare(P::eq, magnitude, 0);
  result.flushed = both(compare(P::sle, magnitude, ranges.vanishes),
                        compare(P::ne, magnitude, 0));
  result.code = encodePairs(b, loc, value, type);
  if (saturate)
    return result;
  Value sign = arith::AndIOp::create(b, loc, result.code,
                                     constantLike(b, loc, i8, int64_t(0x80)));
  Value beyond = arith::OrIOp::create(
      b, loc, sign, constantLike(b, loc, i8, ranges.overflow));
  result.code =
      arith::SelectOp::create(b, loc, result.saturated, beyond, result.code);
  return result;
}

// Every FP8 value is an F16 value.
static Value decodePair(OpBuilder &b, Location loc, Value pair, Type type) {
  return NVVM::ConvertF8x2ToF16x2Op::create(
      b, loc, VectorType::get({2}, b.getF16Type()), pair, /*relu=*/false, type);
}

Value instructions::decodeFloat8(OpBuilder &b, Location loc, Value code,
                                 Type type) {
  Type f32 = like(code, b.getF32Type());
  auto vector = dyn_cast<VectorType>(code.getType());
  if (!vector) {
    Value zero = constantLike(b, loc, code.getType(), int64_t(0));
    Value pair = vector::FromElementsOp::create(
        b, loc, VectorType::get({2}, code.getType()), ValueRange{code, zero});
    Value halves = decodePair(b, loc, pair, type);
    Value half = vector::ExtractOp::create(b, loc, halves, int64_t(0));
    return arith::ExtFOp::create(b, loc, f32, half);
  }
  Type f16 = like(code, b.getF16Type());
  Value halves = constantLike(b, loc, f16, 0.0);
  for (int64_t i = 0; i < vector.getDimSize(0); i += 2) {
    Value pair = vector::ExtractStridedSliceOp::create(
        b, loc, code, ArrayRef<int64_t>{i}, ArrayRef<int64_t>{2},
        ArrayRef<int64_t>{1});
    halves = vector::InsertStridedSliceOp::create(
        b, loc, decodePair(b, loc, pair, type), halves, ArrayRef<int64_t>{i},
        ArrayRef<int64_t>{1});
  }
  return arith::ExtFOp::create(b, loc, f32, halves);
}

// An intrinsic rather than arith.truncf: LLVM would compute the preceding op in
// the narrow format, and contract a product and a sum there to one rounding.
static Value roundPair(OpBuilder &b, Location loc, Value low, Value high,
                       Type type) {
  auto pair = VectorType::get({2}, type);
  auto create = [&](auto op) -> Value {
    return decltype(op)::create(b, loc, pair, high, low,
                                /*random_bits=*/Value(),
                                NVVM::FPRoundingMode::RN);
  };
  if (type.isF16())
    return create(NVVM::ConvertF32x2ToF16x2Op());
  return create(NVVM::ConvertF32x2ToBF16x2Op());
}

Value instructions::round16(OpBuilder &b, Location loc, Value value,
                            Type type) {
  auto vector = dyn_cast<VectorType>(value.getType());
  if (!vector) {
    Value zero = constantLike(b, loc, value.getType(), 0.0);
    Value pair = roundPair(b, loc, value, zero, type);
    Value narrow = vector::ExtractOp::create(b, loc, pair, int64_t(0));
    return arith::ExtFOp::create(b, loc, value.getType(), narrow);
  }
  Value all = constantLike(b, loc, like(value, type), 0.0);
  for (int64_t i = 0; i < vector.getDimSize(0); i += 2) {
    Value low = vector::ExtractOp::create(b, loc, value, i);
    Value high = vector::ExtractOp::create(b, loc, value, i + 1);
    all = vector::InsertStridedSliceOp::create(
        b, loc, roundPair(b, loc, low, high, type), all, ArrayRef<int64_t>{i},
        ArrayRef<int64_t>{1});
  }
  return arith::ExtFOp::create(b, loc, value.getType(), all);
}

Value instructions::packBF16(OpBuilder &b, Location loc, Value value) {
  Value narrow =
      arith::TruncFOp::create(b, loc, like(value, b.getBF16Type()), value);
  return arith::BitcastOp::create(b, loc, like(value, b.getI16Type()), narrow);
}

Value instructions::unpackBF16(OpBuilder &b, Location loc, Value stored) {
  Value narrow =
      arith::BitcastOp::create(b, loc, like(stored, b.getBF16Type()), stored);
  return arith::ExtFOp::create(b, loc, like(stored, b.getF32Type()), narrow);
}
