//===- Bits.cpp - Bounds of bitwise ops -----------------------------------===//

#include "Transfer.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

/// Positive floats are ordered as their bits are.
static RangeState fromBits(const RangeQuery &query) {
  const RangeState &x = query[0];
  bool isPlain = query.getElement().isF32() &&
                 cast<ShapedType>(query.op->getOperand(0).getType())
                     .getElementType()
                     .isInteger(32);
  if (!isPlain || x.lo < 0 || x.hi > 0x7f7fffff)
    return RangeState::unknown(query.getType());
  auto asFloat = [](double bits) {
    auto word = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &word, sizeof(value));
    return value;
  };
  return exact(query, asFloat(x.lo), asFloat(x.hi), false);
}

/// The least 2^k - 1 that is not below `x`.
static double roundUpToOnes(double x) {
  double ones = 0;
  while (ones < x)
    ones = 2 * ones + 1;
  return ones;
}

static RangeState bitwise(const RangeQuery &query, bool isAnd) {
  const RangeState &a = query[0], &b = query[1];
  if (a.lo < 0 || b.lo < 0)
    return RangeState::unknown(query.getType());
  if (isAnd) {
    bool isTrue = query.getElement().isInteger(1) && a.lo >= 1 && b.lo >= 1;
    return exact(query, isTrue ? 1 : 0, std::min(a.hi, b.hi), false);
  }
  double lo = isa<hlo::OrOp>(query.op) ? std::max(a.lo, b.lo) : 0;
  // A constant whose low bits are zero adds, as exponent bits onto a mantissa.
  for (auto [x, c] : {std::make_pair(&a, &b), std::make_pair(&b, &a)})
    if (c->lo == c->hi && std::fmod(c->lo, roundUpToOnes(x->hi) + 1) == 0)
      return exact(query, c->lo + x->lo, c->lo + x->hi, false);
  return exact(query, lo, roundUpToOnes(std::max(a.hi, b.hi)), false);
}

static RangeState shiftRight(const RangeQuery &query) {
  const RangeState &x = query[0], &by = query[1];
  auto type = cast<IntegerType>(query.getElement());
  bool isLogical = isa<hlo::ShiftRightLogicalOp>(query.op);
  double hi = x.hi;
  if (x.lo < 0)
    hi = isLogical ? std::ldexp(1.0, type.getWidth()) - 1 : -1;
  bool isConstant = by.lo == by.hi && by.lo >= 0 && by.lo < type.getWidth();
  if (!isConstant || (x.lo < 0 && (!isLogical || by.lo == 0)))
    return x.lo >= 0 && by.lo >= 0 ? exact(query, 0, x.hi, false)
                                   : RangeState::unknown(query.getType());
  return exact(query, 0, std::floor(std::ldexp(hi, -static_cast<int>(by.lo))),
               false);
}

static RangeState logicalNot(const RangeQuery &query) {
  if (!query.getElement().isInteger(1))
    return RangeState::unknown(query.getType());
  return exact(query, 1 - query[0].hi, 1 - query[0].lo, false);
}

MaybeRange scalify::transferBits(const RangeQuery &query) {
  return llvm::TypeSwitch<Operation *, MaybeRange>(query.op)
      .Case<hlo::AndOp>([&](auto) { return bitwise(query, /*isAnd=*/true); })
      .Case<hlo::BitcastConvertOp>([&](auto) { return fromBits(query); })
      .Case<hlo::NotOp>([&](auto) { return logicalNot(query); })
      .Case<hlo::OrOp, hlo::XorOp>(
          [&](auto) { return bitwise(query, /*isAnd=*/false); })
      .Case<hlo::ShiftRightLogicalOp, hlo::ShiftRightArithmeticOp>(
          [&](auto) { return shiftRight(query); })
      .Default([](Operation *) { return std::nullopt; });
}
