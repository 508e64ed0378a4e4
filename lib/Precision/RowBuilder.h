//===- RowBuilder.h - Elementwise arithmetic on rows of state ---*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_ROWBUILDER_H
#define SCALIFY_LIB_PRECISION_ROWBUILDER_H

#include "scalify/Dialect/StableHLO/Values.h"

#include "mlir/IR/Builders.h"

namespace scalify {

/// Builds elementwise arithmetic on F32 tensors of one shape.
class RowBuilder {
public:
  RowBuilder(mlir::OpBuilder &builder, mlir::Location loc,
             llvm::ArrayRef<int64_t> shape)
      : builder(builder), loc(loc), shape(shape) {}

  template <typename T> mlir::Value constant(mlir::Type element, T values) {
    auto type = mlir::RankedTensorType::get(shape, element);
    return stablehlo::buildConstant(builder, loc, type, values);
  }
  mlir::Value splat(float x) { return constant(builder.getF32Type(), x); }
  mlir::Value vector(llvm::ArrayRef<float> xs) {
    return constant(builder.getF32Type(), xs);
  }
  /// `x` must be positive.
  mlir::Value roundUpToPowerOfTwo(mlir::Value x);
  mlir::Value selectWhereAbove(mlir::Value x, float least, mlir::Value value,
                               mlir::Value other);

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
  llvm::SmallVector<int64_t> shape;
};

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_ROWBUILDER_H
