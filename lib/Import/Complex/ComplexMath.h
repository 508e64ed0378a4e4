//===- ComplexMath.h - Functions of complex numbers by parts ----*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_COMPLEX_COMPLEXMATH_H
#define SCALIFY_LIB_IMPORT_COMPLEX_COMPLEXMATH_H

#include "../RealOps.h"

namespace scalify::import {

/// A complex tensor as its real and its imaginary part.
struct Parts {
  Real re, im;
};

Parts operator+(Parts x, Parts y);
Parts operator-(Parts x, Parts y);
Parts operator*(Parts x, Parts y);
Parts operator/(Parts x, Parts y);

/// Builds the magnitude, without an overflow of squares.
Real magnitude(Parts x);

/// Builds the elementwise op of these operands, all complex; nothing if it has
/// no such expansion.
std::optional<Parts> buildComplex(Operation *op, ArrayRef<Parts> operands);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_COMPLEX_COMPLEXMATH_H
