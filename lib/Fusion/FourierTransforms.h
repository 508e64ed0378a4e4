//===- FourierTransforms.h - Transforms as products -------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_FOURIERTRANSFORMS_H
#define SCALIFY_LIB_FUSION_FOURIERTRANSFORMS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify {

/// A complex value as two real ones; `im` is null for a real value.
struct ComplexParts {
  mlir::Value re, im;
};

/// True if `buildTransform` has the op: a length whose prime factors are small.
bool hasTransform(stablehlo::FftOp op);

/// Builds the op by products with matrices of roots of unity.
ComplexParts buildTransform(mlir::ImplicitLocOpBuilder &builder,
                            stablehlo::FftOp op, ComplexParts operand);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_FOURIERTRANSFORMS_H
