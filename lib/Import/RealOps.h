//===- RealOps.h - Arithmetic operators that build stablehlo ----*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_REALOPS_H
#define SCALIFY_LIB_IMPORT_REALOPS_H

#include "scalify/Dialect/StableHLO/Values.h"

namespace scalify::import {

using namespace mlir;
using stablehlo::ComparisonDirection;

/// An f32 or f64 tensor; operators build ops of its type at the builder.
struct Real {
  ImplicitLocOpBuilder *b;
  Value value;

  Real like(double number) const {
    return {b,
            stablehlo::buildNumber(*b, b->getLoc(), value.getType(), number)};
  }
  template <typename Op> Real apply() const {
    return {b, Op::create(*b, value)};
  }
  template <typename Op> Real apply(Real other) const {
    return {b, Op::create(*b, value, other.value)};
  }
  Value compare(ComparisonDirection direction, Real other) const {
    return stablehlo::CompareOp::create(*b, value, other.value, direction,
                                        stablehlo::ComparisonType::FLOAT);
  }
  Value isLess(double bound) const {
    return compare(ComparisonDirection::LT, like(bound));
  }
};

inline Real operator+(Real x, Real y) { return x.apply<stablehlo::AddOp>(y); }
inline Real operator-(Real x, Real y) {
  return x.apply<stablehlo::SubtractOp>(y);
}
inline Real operator*(Real x, Real y) { return x.apply<stablehlo::MulOp>(y); }
inline Real operator/(Real x, Real y) { return x.apply<stablehlo::DivOp>(y); }
inline Real operator+(Real x, double y) { return x + x.like(y); }
inline Real operator-(double x, Real y) { return y.like(x) - y; }
inline Real operator*(Real x, double y) { return x * x.like(y); }
inline Real operator/(Real x, double y) { return x / x.like(y); }
inline Real abs(Real x) { return x.apply<stablehlo::AbsOp>(); }
inline Real sqrt(Real x) { return x.apply<stablehlo::SqrtOp>(); }
inline Real log(Real x) { return x.apply<stablehlo::LogOp>(); }
inline Real log1p(Real x) { return x.apply<stablehlo::Log1pOp>(); }
inline Real exp(Real x) { return x.apply<stablehlo::ExpOp>(); }
inline Real expm1(Real x) { return x.apply<stablehlo::Expm1Op>(); }
inline Real atan2(Real y, Real x) { return y.apply<stablehlo::Atan2Op>(x); }
inline Real power(Real x, Real y) { return x.apply<stablehlo::PowOp>(y); }
inline Real withSign(Real magnitude, Real of) {
  return of.apply<stablehlo::SignOp>() * magnitude;
}
inline Real select(Value condition, Real yes, Real no) {
  return {yes.b,
          stablehlo::SelectOp::create(*yes.b, condition, yes.value, no.value)};
}

/// Builds a polynomial from its coefficients, from the constant term upwards.
inline Real horner(ArrayRef<double> coefficients, Real x) {
  Real sum = x.like(coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = sum * x + coefficient;
  return sum;
}

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_REALOPS_H
