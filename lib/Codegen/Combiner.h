//===- Combiner.h - Combination of the lanes of a reduction -----*- C++ -*-===//

#ifndef SCALIFY_LIB_CODEGEN_COMBINER_H
#define SCALIFY_LIB_CODEGEN_COMBINER_H

#include "KernelEmitter.h"

#include "scalify/Dialect/StableHLO/Integers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace scalify::codegen {

/// Of F32: the sign, and the NaNs of each sign.
inline constexpr int64_t kSignBit = INT32_MIN, kNumNaNs = 0x7fffff;

/// Reverses the order of negative patterns, whose magnitudes fall as their
/// numbers rise.
inline mlir::Value flipNegative(mlir::OpBuilder &b, mlir::Location loc,
                                mlir::Value word) {
  auto constant = [&](int64_t value) {
    return constantLike(b, loc, word.getType(), value);
  };
  mlir::Value sign = mlir::arith::ShRSIOp::create(b, loc, word, constant(31));
  mlir::Value mask =
      mlir::arith::AndIOp::create(b, loc, sign, constant(0x7fffffff));
  return mlir::arith::XOrIOp::create(b, loc, word, mask);
}

/// Combines lanes of one reduction kind and element type.
struct Combiner {
  ReduceKind kind;
  mlir::Type element;

  bool isFloat() const { return mlir::isa<mlir::FloatType>(element); }
  bool isUnsigned() const { return stablehlo::hasUnsignedElements(element); }
  bool isBool() const { return element.isInteger(1); }

  mlir::vector::CombiningKind lanes() const {
    using K = mlir::vector::CombiningKind;
    switch (kind) {
    case ReduceKind::Add:
      return isBool() ? K::OR : K::ADD;
    case ReduceKind::Mul:
      return isBool() ? K::AND : K::MUL;
    case ReduceKind::Max:
      return isFloat() ? K::MAXIMUMF : isUnsigned() ? K::MAXUI : K::MAXSI;
    case ReduceKind::Min:
      return isFloat() ? K::MINIMUMF : isUnsigned() ? K::MINUI : K::MINSI;
    case ReduceKind::And:
      return K::AND;
    case ReduceKind::Or:
      return K::OR;
    default:
      return K::XOR;
    }
  }

  mlir::Value identity(mlir::OpBuilder &b, mlir::Location loc,
                       mlir::Type type) const {
    if (isFloat()) {
      double value = kind == ReduceKind::Add   ? -0.0
                     : kind == ReduceKind::Mul ? 1.0
                     : kind == ReduceKind::Max ? -INFINITY
                                               : INFINITY;
      return constantLike(b, loc, type, value);
    }
    unsigned width = element.getIntOrFloatBitWidth();
    int64_t most = isUnsigned()  ? -1
                   : width == 64 ? INT64_MAX
                                 : (int64_t(1) << (width - 1)) - 1;
    int64_t least = isUnsigned() ? 0 : -most - 1;
    switch (kind) {
    case ReduceKind::Mul:
      return constantLike(b, loc, type, isBool() ? int64_t(-1) : int64_t(1));
    case ReduceKind::Max:
      return constantLike(b, loc, type, least);
    case ReduceKind::Min:
      return constantLike(b, loc, type, most);
    case ReduceKind::And:
      return constantLike(b, loc, type, int64_t(-1));
    default:
      return constantLike(b, loc, type, int64_t(0));
    }
  }

  mlir::Value combine(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x,
                      mlir::Value y) const {
    return mlir::vector::makeArithReduction(b, loc, lanes(), x, y);
  }

  /// True if lanes hold keys, integers in the order of the numbers. LLVM's
  /// maximum of floats is six instructions long, each waiting for the last.
  bool hasKeys(Machine machine) const {
    return machine == Machine::CPU && registerType(element).isF32() &&
           (kind == ReduceKind::Max || kind == ReduceKind::Min);
  }

  /// Returns the keys of numbers: of the largest for a maximum, of the smallest
  /// for a minimum, and above all others those of NaNs of either sign, whose
  /// patterns follow the infinities'.
  mlir::Value toKeys(mlir::OpBuilder &b, mlir::Location loc,
                     mlir::Value numbers) const {
    mlir::Type type = keysLike(numbers.getType());
    mlir::Value word = mlir::arith::BitcastOp::create(b, loc, type, numbers);
    if (kind == ReduceKind::Min)
      word = mlir::arith::XOrIOp::create(b, loc, word,
                                         constantLike(b, loc, type, kSignBit));
    return mlir::arith::SubIOp::create(b, loc, flipNegative(b, loc, word),
                                       constantLike(b, loc, type, kNumNaNs));
  }

  mlir::Value fromKeys(mlir::OpBuilder &b, mlir::Location loc,
                       mlir::Value keys) const {
    mlir::Type type = keys.getType(), f32 = b.getF32Type();
    mlir::Value word = mlir::arith::AddIOp::create(
        b, loc, keys, constantLike(b, loc, type, kNumNaNs));
    word = flipNegative(b, loc, word);
    if (kind == ReduceKind::Min)
      word = mlir::arith::XOrIOp::create(b, loc, word,
                                         constantLike(b, loc, type, kSignBit));
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      f32 = mlir::VectorType::get(vector.getShape(), f32);
    return mlir::arith::BitcastOp::create(b, loc, f32, word);
  }

  static mlir::Type keysLike(mlir::Type numbers) {
    mlir::Type i32 = mlir::IntegerType::get(numbers.getContext(), 32);
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(numbers))
      return mlir::VectorType::get(vector.getShape(), i32);
    return i32;
  }

  mlir::Value reduceAcrossLanes(mlir::OpBuilder &b, mlir::Location loc,
                                mlir::Value x) const {
    auto fast = mlir::arith::FastMathFlags::reassoc;
    return mlir::vector::ReductionOp::create(
        b, loc, lanes(), x,
        isFloat() ? fast : mlir::arith::FastMathFlags::none);
  }
};

} // namespace scalify::codegen

#endif // SCALIFY_LIB_CODEGEN_COMBINER_H
