//===- EmitElementwise.cpp - Elementwise ops on registers -----------------===//
//
// Narrow floats are computed in f32 and rounded after every op, as their
// definition requires. The tensor type gives the signedness of integers.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"

#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

namespace {
struct Emit {
  OpBuilder &b;
  Location loc;
  Type type;    // of the registers
  Type element; // of the operand tensors
  ValueRange x;

  bool isFloat() const { return isa<FloatType>(element); }
  bool isUnsigned() const { return stablehlo::hasUnsignedElements(element); }
  Value c(double v) { return constantLike(b, loc, type, v); }
  Value ci(int64_t v) { return constantLike(b, loc, type, v); }

  template <typename FloatOp, typename IntOp> Value pick() {
    if (isFloat())
      return FloatOp::create(b, loc, x[0], x[1]);
    return IntOp::create(b, loc, x[0], x[1]);
  }
  template <typename FloatOp, typename SignedOp, typename UnsignedOp>
  Value pick() {
    if (isFloat())
      return FloatOp::create(b, loc, x[0], x[1]);
    if (isUnsigned())
      return UnsignedOp::create(b, loc, x[0], x[1]);
    return SignedOp::create(b, loc, x[0], x[1]);
  }
  template <typename Op> Value unary() { return Op::create(b, loc, x[0]); }

  Value compare(arith::CmpIPredicate p, Value l, Value r) {
    return arith::CmpIOp::create(b, loc, p, l, r);
  }
  Value compare(arith::CmpFPredicate p, Value l, Value r) {
    return arith::CmpFOp::create(b, loc, p, l, r);
  }
  Value select(Value p, Value l, Value r) {
    return arith::SelectOp::create(b, loc, p, l, r);
  }
  Value add();
  Value multiply();
  Value divide();
  Value remainder();
  Value power();
  Value sign();
  Value absolute();
  Value logistic();
  template <typename Op> Value shift(bool arithmetic);
  Value compareOp(stablehlo::CompareOp op);
  Value totalOrderKey(Value v);
  Value reducePrecision(stablehlo::ReducePrecisionOp op);
};
} // namespace

Value Emit::add() {
  if (element.isInteger(1))
    return arith::OrIOp::create(b, loc, x[0], x[1]);
  return pick<arith::AddFOp, arith::AddIOp>();
}

Value Emit::multiply() {
  if (element.isInteger(1))
    return arith::AndIOp::create(b, loc, x[0], x[1]);
  return pick<arith::MulFOp, arith::MulIOp>();
}

// x / 0 is -1 and the lowest number over -1 is itself, as in XLA.
Value Emit::divide() {
  if (isFloat())
    return arith::DivFOp::create(b, loc, x[0], x[1]);
  Value isZero = compare(arith::CmpIPredicate::eq, x[1], ci(0));
  if (isUnsigned()) {
    Value safe = select(isZero, ci(1), x[1]);
    Value q = arith::DivUIOp::create(b, loc, x[0], safe);
    return select(isZero, ci(-1), q);
  }
  unsigned width = element.getIntOrFloatBitWidth();
  Value isOverflow = arith::AndIOp::create(
      b, loc, compare(arith::CmpIPredicate::eq, x[1], ci(-1)),
      compare(arith::CmpIPredicate::eq, x[0],
              ci(static_cast<int64_t>(~0ull << (width - 1)))));
  Value bad = arith::OrIOp::create(b, loc, isZero, isOverflow);
  Value q = arith::DivSIOp::create(b, loc, x[0], select(bad, ci(1), x[1]));
  return select(isZero, ci(-1), q);
}

Value Emit::remainder() {
  if (isFloat())
    return arith::RemFOp::create(b, loc, x[0], x[1]);
  Value isZero = compare(arith::CmpIPredicate::eq, x[1], ci(0));
  if (isUnsigned()) {
    Value r = arith::RemUIOp::create(b, loc, x[0], select(isZero, ci(1), x[1]));
    return select(isZero, x[0], r);
  }
  Value isMinusOne = compare(arith::CmpIPredicate::eq, x[1], ci(-1));
  Value bad = arith::OrIOp::create(b, loc, isZero, isMinusOne);
  Value r = arith::RemSIOp::create(b, loc, x[0], select(bad, ci(1), x[1]));
  return select(isZero, x[0], r);
}

// Squares and multiplies, one bit of the exponent at a time. A negative
// exponent gives 0, except for bases of 1 and -1.
Value Emit::power() {
  if (isFloat())
    return math::PowFOp::create(b, loc, x[0], x[1]);
  unsigned width = element.getIntOrFloatBitWidth();
  Value power = ci(1), square = x[0];
  for (unsigned bit = 0; bit < width; ++bit) {
    Value mask = ci(static_cast<int64_t>(uint64_t(1) << bit));
    Value isSet = compare(arith::CmpIPredicate::ne,
                          arith::AndIOp::create(b, loc, x[1], mask), ci(0));
    Value next = arith::MulIOp::create(b, loc, power, square);
    power = select(isSet, next, power);
    square = arith::MulIOp::create(b, loc, square, square);
  }
  if (isUnsigned())
    return power;
  Value isInverse = compare(arith::CmpIPredicate::slt, x[1], ci(0));
  Value isOne = arith::OrIOp::create(
      b, loc, compare(arith::CmpIPredicate::eq, x[0], ci(1)),
      compare(arith::CmpIPredicate::eq, x[0], ci(-1)));
  return select(isInverse, select(isOne, power, ci(0)), power);
}

Value Emit::sign() {
  if (isFloat()) {
    Value one = math::CopySignOp::create(b, loc, c(1.0), x[0]);
    Value isZeroOrNaN = compare(arith::CmpFPredicate::UEQ, x[0], c(0.0));
    return select(isZeroOrNaN, x[0], one);
  }
  if (isUnsigned())
    return arith::MinUIOp::create(b, loc, x[0], ci(1));
  return arith::MinSIOp::create(
      b, loc, arith::MaxSIOp::create(b, loc, x[0], ci(-1)), ci(1));
}

Value Emit::absolute() {
  if (isFloat())
    return math::AbsFOp::create(b, loc, x[0]);
  if (isUnsigned())
    return x[0];
  return arith::MaxSIOp::create(b, loc, x[0],
                                arith::SubIOp::create(b, loc, ci(0), x[0]));
}

// Uses the smaller of e^x and e^-x, which does not overflow.
Value Emit::logistic() {
  Value size = math::AbsFOp::create(b, loc, x[0]);
  Value e = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, size));
  Value isNegative = compare(arith::CmpFPredicate::OLT, x[0], c(0.0));
  return arith::DivFOp::create(b, loc, select(isNegative, e, c(1.0)),
                               arith::AddFOp::create(b, loc, c(1.0), e));
}

// A shift by the width or more gives 0 (or the sign), not poison.
template <typename Op> Value Emit::shift(bool arithmetic) {
  int64_t width = element.getIntOrFloatBitWidth();
  Value inRange = compare(arith::CmpIPredicate::ult, x[1], ci(width));
  if (arithmetic) {
    Value amount = select(inRange, x[1], ci(width - 1));
    return Op::create(b, loc, x[0], amount);
  }
  Value amount = select(inRange, x[1], ci(0));
  return select(inRange, Op::create(b, loc, x[0], amount), ci(0));
}

// Maps floats to integers in the order -NaN < -inf < .. < -0 < +0 < .. < NaN.
Value Emit::totalOrderKey(Value v) {
  // Registers hold BF16 and FP8 as F32.
  unsigned width = getElementTypeOrSelf(v.getType()).getIntOrFloatBitWidth();
  Type bits = withElement(v.getType(), b.getIntegerType(width));
  Value word = arith::BitcastOp::create(b, loc, bits, v);
  Value sign = arith::ShRSIOp::create(
      b, loc, word, constantLike(b, loc, bits, int64_t(width - 1)));
  Value mask = arith::ShRUIOp::create(b, loc, sign,
                                      constantLike(b, loc, bits, int64_t(1)));
  return arith::XOrIOp::create(b, loc, word, mask);
}

Value Emit::compareOp(stablehlo::CompareOp op) {
  using D = stablehlo::ComparisonDirection;
  D direction = op.getComparisonDirection();
  auto integer = [&](Value l, Value r, bool isUnsigned) {
    using P = arith::CmpIPredicate;
    static const P table[][2] = {{P::eq, P::eq},   {P::ne, P::ne},
                                 {P::sge, P::uge}, {P::sgt, P::ugt},
                                 {P::sle, P::ule}, {P::slt, P::ult}};
    return compare(table[static_cast<int>(direction)][isUnsigned], l, r);
  };
  if (!isFloat())
    return integer(x[0], x[1], isUnsigned());
  if (op.getCompareType() == stablehlo::ComparisonType::TOTALORDER)
    return integer(totalOrderKey(x[0]), totalOrderKey(x[1]), false);
  using P = arith::CmpFPredicate;
  static const P table[] = {P::OEQ, P::UNE, P::OGE, P::OGT, P::OLE, P::OLT};
  return compare(table[static_cast<int>(direction)], x[0], x[1]);
}

// Works on the bits of the operand's format. Rounds the mantissa to nearest
// even, then turns exponents outside the narrower format into zero or infinity.
Value Emit::reducePrecision(stablehlo::ReducePrecisionOp op) {
  // Registers hold BF16 and FP8 as F32, which contains both.
  Type number = element.isF16() || element.isF64() ? element : b.getF32Type();
  const llvm::fltSemantics &semantics =
      cast<FloatType>(number).getFloatSemantics();
  int64_t width = number.getIntOrFloatBitWidth();
  int64_t places = APFloat::semanticsPrecision(semantics) - 1;
  int64_t mantissa = op.getMantissaBits(), exponent = op.getExponentBits();
  Type bits = withElement(type, b.getIntegerType(width));
  auto ci = [&](int64_t v) { return constantLike(b, loc, bits, v); };
  auto pattern = [&](double v) {
    APFloat value(v);
    bool lost;
    value.convert(semantics, APFloat::rmNearestTiesToEven, &lost);
    return ci(value.bitcastToAPInt().getSExtValue());
  };
  Value stored = x[0];
  if (element.isF16())
    stored = arith::TruncFOp::create(b, loc, withElement(type, number), stored);
  Value word = arith::BitcastOp::create(b, loc, bits, stored);
  Value whole = word;
  if (int64_t shift = places - mantissa; shift > 0) {
    Value odd = arith::AndIOp::create(
        b, loc, arith::ShRUIOp::create(b, loc, word, ci(shift)), ci(1));
    Value sum = arith::AddIOp::create(b, loc, word,
                                      ci((int64_t(1) << (shift - 1)) - 1));
    sum = arith::AddIOp::create(b, loc, sum, odd);
    word = arith::AndIOp::create(b, loc, sum, ci(-(int64_t(1) << shift)));
  }
  Value signMask = ci(static_cast<int64_t>(~uint64_t(0) << (width - 1)));
  Value sign = arith::AndIOp::create(b, loc, word, signMask);
  Value magnitude = arith::XOrIOp::create(b, loc, word, sign);
  if (exponent < width - 1 - places) {
    int64_t bias = (int64_t(1) << (exponent - 1)) - 1;
    Value isSmall = compare(arith::CmpIPredicate::ult, magnitude,
                            pattern(std::ldexp(1.0, 1 - bias)));
    Value isLarge = compare(arith::CmpIPredicate::uge, magnitude,
                            pattern(std::ldexp(1.0, bias + 1)));
    Value limited =
        select(isLarge, pattern(INFINITY), select(isSmall, ci(0), magnitude));
    word = arith::OrIOp::create(b, loc, limited, sign);
  }
  Value size = arith::AndIOp::create(
      b, loc, whole, arith::XOrIOp::create(b, loc, signMask, ci(-1)));
  Value isNaN = compare(arith::CmpIPredicate::ugt, size, pattern(INFINITY));
  word = select(isNaN, whole, word);
  Value result =
      arith::BitcastOp::create(b, loc, withElement(type, number), word);
  if (element.isF16())
    result = arith::ExtFOp::create(b, loc, type, result);
  return result;
}

static FailureOr<Value> emitUnary(Emit &e, Operation *op) {
  OpBuilder &b = e.b;
  Location loc = e.loc;
  Value x = e.x[0];
  return TypeSwitch<Operation *, FailureOr<Value>>(op)
      .Case([&](stablehlo::AbsOp) { return e.absolute(); })
      .Case([&](stablehlo::CbrtOp) { return e.unary<math::CbrtOp>(); })
      .Case([&](stablehlo::CeilOp) { return e.unary<math::CeilOp>(); })
      .Case([&](stablehlo::ClzOp) {
        return e.unary<math::CountLeadingZerosOp>();
      })
      .Case([&](stablehlo::CosineOp) { return e.unary<math::CosOp>(); })
      .Case([&](stablehlo::ExpOp) { return e.unary<math::ExpOp>(); })
      .Case([&](stablehlo::Expm1Op) { return e.unary<math::ExpM1Op>(); })
      .Case([&](stablehlo::FloorOp) { return e.unary<math::FloorOp>(); })
      .Case([&](stablehlo::IsFiniteOp) -> Value {
        Value magnitude = math::AbsFOp::create(b, loc, x);
        return e.compare(arith::CmpFPredicate::OLT, magnitude, e.c(INFINITY));
      })
      .Case([&](stablehlo::LogOp) { return e.unary<math::LogOp>(); })
      .Case([&](stablehlo::Log1pOp) { return e.unary<math::Log1pOp>(); })
      .Case([&](stablehlo::LogisticOp) { return e.logistic(); })
      .Case([&](stablehlo::NegOp) -> Value {
        if (e.isFloat())
          return arith::NegFOp::create(b, loc, x);
        return arith::SubIOp::create(b, loc, e.ci(0), x);
      })
      .Case([&](stablehlo::NotOp) -> Value {
        return arith::XOrIOp::create(b, loc, x, e.ci(-1));
      })
      .Case([&](stablehlo::PopulationCountOp) {
        return e.unary<math::CtPopOp>();
      })
      .Case([&](stablehlo::RoundNearestEvenOp) {
        return e.unary<math::RoundEvenOp>();
      })
      .Case([&](stablehlo::RoundOp) -> Value {
        // The floor of |x| + 1/2 is wrong for 0.5 - ulp: truncate and compare
        // the fraction instead.
        Value whole = math::TruncOp::create(b, loc, x);
        Value rest = math::AbsFOp::create(
            b, loc, arith::SubFOp::create(b, loc, x, whole));
        Value up = e.compare(arith::CmpFPredicate::OGE, rest, e.c(0.5));
        Value one = math::CopySignOp::create(b, loc, e.c(1.0), x);
        return e.select(up, arith::AddFOp::create(b, loc, whole, one), whole);
      })
      .Case([&](stablehlo::RsqrtOp) { return e.unary<math::RsqrtOp>(); })
      .Case([&](stablehlo::SignOp) { return e.sign(); })
      .Case([&](stablehlo::SineOp) { return e.unary<math::SinOp>(); })
      .Case([&](stablehlo::SqrtOp) { return e.unary<math::SqrtOp>(); })
      .Case([&](stablehlo::TanOp) { return e.unary<math::TanOp>(); })
      .Case([&](stablehlo::TanhOp) { return e.unary<math::TanhOp>(); })
      .Case(
          [&](stablehlo::ReducePrecisionOp o) { return e.reducePrecision(o); })
      .Default([](Operation *) { return failure(); });
}

static FailureOr<Value> emitBinary(Emit &e, Operation *op) {
  OpBuilder &b = e.b;
  Location loc = e.loc;
  return TypeSwitch<Operation *, FailureOr<Value>>(op)
      .Case([&](stablehlo::AddOp) { return e.add(); })
      .Case([&](stablehlo::AndOp) -> Value {
        return arith::AndIOp::create(b, loc, e.x[0], e.x[1]);
      })
      .Case([&](stablehlo::Atan2Op) -> Value {
        return math::Atan2Op::create(b, loc, e.x[0], e.x[1]);
      })
      .Case([&](stablehlo::CompareOp o) { return e.compareOp(o); })
      .Case([&](stablehlo::DivOp) { return e.divide(); })
      .Case([&](stablehlo::MaxOp) {
        return e.pick<arith::MaximumFOp, arith::MaxSIOp, arith::MaxUIOp>();
      })
      .Case([&](stablehlo::MinOp) {
        return e.pick<arith::MinimumFOp, arith::MinSIOp, arith::MinUIOp>();
      })
      .Case([&](stablehlo::MulOp) { return e.multiply(); })
      .Case([&](stablehlo::OrOp) -> Value {
        return arith::OrIOp::create(b, loc, e.x[0], e.x[1]);
      })
      .Case([&](stablehlo::PowOp) { return e.power(); })
      .Case([&](stablehlo::RemOp) { return e.remainder(); })
      .Case(
          [&](stablehlo::ShiftLeftOp) { return e.shift<arith::ShLIOp>(false); })
      .Case([&](stablehlo::ShiftRightArithmeticOp) {
        return e.shift<arith::ShRSIOp>(true);
      })
      .Case([&](stablehlo::ShiftRightLogicalOp) {
        return e.shift<arith::ShRUIOp>(false);
      })
      .Case([&](stablehlo::SubtractOp) {
        return e.pick<arith::SubFOp, arith::SubIOp>();
      })
      .Case([&](stablehlo::XorOp) -> Value {
        return arith::XOrIOp::create(b, loc, e.x[0], e.x[1]);
      })
      .Default([](Operation *) { return failure(); });
}

static Value clamp(Emit &e) {
  Value low = e.x[0], x = e.x[1], high = e.x[2];
  SmallVector<Value> pair{x, low};
  e.x = pair;
  Value raised = e.pick<arith::MaximumFOp, arith::MaxSIOp, arith::MaxUIOp>();
  pair = {raised, high};
  e.x = pair;
  return e.pick<arith::MinimumFOp, arith::MinSIOp, arith::MinUIOp>();
}

static Value bitcastConvert(OpBuilder &b, Location loc, Value value, Type from,
                            Type to, Machine machine) {
  // Goes through the bits in memory, where both types have the same width.
  Value stored = toStorage(b, loc, value, from, machine);
  Type type = withElement(value.getType(), storageType(to));
  if (stored.getType() != type)
    stored = arith::BitcastOp::create(b, loc, type, stored);
  return toRegister(b, loc, stored, to, machine);
}

FailureOr<Value> scalify::codegen::emitElementwise(OpBuilder &b, Operation *op,
                                                   ValueRange operands,
                                                   Machine machine) {
  Location loc = op->getLoc();
  Type from = getElementTypeOrSelf(op->getOperand(0).getType());
  Type to = getElementTypeOrSelf(op->getResult(0).getType());
  if (isa<stablehlo::ConvertOp>(op))
    return emitConvert(b, loc, operands[0], from, to, machine);
  if (isa<stablehlo::BitcastConvertOp>(op)) {
    if (from.getIntOrFloatBitWidth() != to.getIntOrFloatBitWidth())
      return failure();
    return bitcastConvert(b, loc, operands[0], from, to, machine);
  }
  if (isa<stablehlo::SelectOp>(op))
    return Value(
        arith::SelectOp::create(b, loc, operands[0], operands[1], operands[2]));
  // FP8 is computed in f32.
  SmallVector<Value> args(operands);
  if (hasFP8Elements(from))
    for (Value &arg : args)
      arg = decodeFloat8(b, loc, arg, from, machine);
  Emit emit{b, loc, args[0].getType(), from, args};
  FailureOr<Value> result = failure();
  if (isa<stablehlo::ClampOp>(op))
    result = clamp(emit);
  else
    result = args.size() == 1 ? emitUnary(emit, op) : emitBinary(emit, op);
  if (failed(result) || !isa<FloatType>(to))
    return result;
  if (hasFP8Elements(to))
    return encodeFloat8(b, loc, *result, to, /*saturate=*/false, machine);
  return roundTo(b, loc, *result, to, machine);
}
