//===- RealMath.h - Math functions built from arithmetic --------*- C++ -*-===//
//
// Each function builds its op for scalars or vectors. Results follow IEEE 754
// at zeros, infinities and NaN, and are within a few units in the last place
// elsewhere. Kernels call no library.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_CODEGEN_REALMATH_H
#define SCALIFY_LIB_CODEGEN_REALMATH_H

#include "KernelEmitter.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace scalify::codegen {

/// Builds arithmetic on scalars, or on vectors of the shape of `type`.
struct Real {
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type type;   // of operands and result: F32 or F64, or vectors
  mlir::Type number; // of the computation
  using F = mlir::arith::CmpFPredicate;

  /// Computes a function of either type in F64.
  static Real wide(mlir::OpBuilder &b, mlir::Location loc, mlir::Type type) {
    return {b, loc, type, withElement(type, b.getF64Type())};
  }
  bool isNarrow() const { return mlir::getElementTypeOrSelf(type).isF32(); }
  /// Integers of the width of `number`.
  mlir::Type word() const {
    unsigned width = mlir::getElementTypeOrSelf(number).getIntOrFloatBitWidth();
    return withElement(type, b.getIntegerType(width));
  }
  mlir::Value c(double v) { return constantLike(b, loc, number, v); }
  mlir::Value ci(int64_t v) { return constantLike(b, loc, word(), v); }
  mlir::Value widen(mlir::Value x) {
    return number == type ? x : make<mlir::arith::ExtFOp>(number, x);
  }
  mlir::Value narrowed(mlir::Value x) {
    return number == type ? x : make<mlir::arith::TruncFOp>(type, x);
  }

  template <typename Op, typename... Args> mlir::Value make(Args... args) {
    return Op::create(b, loc, args...);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return make<mlir::arith::AddFOp>(x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return make<mlir::arith::SubFOp>(x, y);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) {
    return make<mlir::arith::MulFOp>(x, y);
  }
  mlir::Value div(mlir::Value x, mlir::Value y) {
    return make<mlir::arith::DivFOp>(x, y);
  }
  mlir::Value neg(mlir::Value x) { return make<mlir::arith::NegFOp>(x); }
  mlir::Value abs(mlir::Value x) { return make<mlir::math::AbsFOp>(x); }
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z) {
    return make<mlir::math::FmaOp>(x, y, z);
  }
  mlir::Value floor(mlir::Value x) { return make<mlir::math::FloorOp>(x); }
  mlir::Value nearest(mlir::Value x) {
    return make<mlir::math::RoundEvenOp>(x);
  }
  mlir::Value withSign(mlir::Value size, mlir::Value of) {
    return make<mlir::math::CopySignOp>(size, of);
  }
  mlir::Value select(mlir::Value p, mlir::Value x, mlir::Value y) {
    return make<mlir::arith::SelectOp>(p, x, y);
  }
  mlir::Value compare(F p, mlir::Value x, mlir::Value y) {
    return make<mlir::arith::CmpFOp>(p, x, y);
  }
  mlir::Value is(F p, mlir::Value x, double y) { return compare(p, x, c(y)); }
  mlir::Value both(mlir::Value p, mlir::Value q) {
    return make<mlir::arith::AndIOp>(p, q);
  }
  mlir::Value isNot(mlir::Value p) {
    return make<mlir::arith::XOrIOp>(
        p, constantLike(b, loc, p.getType(), int64_t(1)));
  }
  /// True if the scalar, or any lane, is true.
  mlir::Value any(mlir::Value p);
  mlir::Value bits(mlir::Value x) {
    return make<mlir::arith::BitcastOp>(word(), x);
  }
  mlir::Value fromBits(mlir::Value x) {
    return make<mlir::arith::BitcastOp>(number, x);
  }

  /// Sum of coefficients[i] * x^i, lowest power first.
  mlir::Value polynomial(mlir::Value x, llvm::ArrayRef<double> coefficients);
  /// Returns 2^k, for integral k that are exponents of normal numbers.
  mlir::Value powerOfTwo(mlir::Value k);
  /// Converts integers up to a quarter of the range that `number` holds
  /// exactly.
  mlir::Value toReal(mlir::Value integer);
};

// In F64 (DoubleMath.cpp, Trigonometry.cpp).
mlir::Value sine(Real &d, mlir::Value x);
mlir::Value cosine(Real &d, mlir::Value x);
mlir::Value tangent(Real &d, mlir::Value x);
mlir::Value exponential(Real &d, mlir::Value x);
mlir::Value exponentialMinusOne(Real &d, mlir::Value x);
mlir::Value hyperbolicTangent(Real &d, mlir::Value x);
mlir::Value logarithm(Real &d, mlir::Value x);
mlir::Value logarithmPlusOne(Real &d, mlir::Value x);
mlir::Value power(Real &d, mlir::Value x, mlir::Value y);
mlir::Value cubeRoot(Real &d, mlir::Value x);
mlir::Value arcTangent(Real &d, mlir::Value y, mlir::Value x);
/// Remainder of a division truncated towards zero; exact.
mlir::Value remainder(Real &d, mlir::Value x, mlir::Value y);

// In F32 (SingleMath.cpp): the functions that large tensors need.
mlir::Value exponential32(Real &d, mlir::Value x);
mlir::Value logarithm32(Real &d, mlir::Value x);

} // namespace scalify::codegen

#endif // SCALIFY_LIB_CODEGEN_REALMATH_H
