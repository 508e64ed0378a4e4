//===- ScaleArithmetic.h - Building scale values ----------------*- C++ -*-===//

#ifndef SCALIFY_SCALING_SCALEARITHMETIC_H
#define SCALIFY_SCALING_SCALEARITHMETIC_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace scalify {

/// Builds rank-0 f32 scales. Each constant is created once, at the start of the
/// block. Products and quotients of constants are folded.
class ScaleArithmetic {
public:
  explicit ScaleArithmetic(mlir::Block &block) : block(block) {}

  mlir::Value powerOfTwo(int64_t exponent);
  mlir::Value one() { return powerOfTwo(0); }
  mlir::Value constant(float value);
  mlir::Value product(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::Value a, mlir::Value b);
  mlir::Value quotient(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Value a, mlir::Value b);

private:
  mlir::Block &block;
  llvm::DenseMap<uint32_t, mlir::Value> constants;
};

/// Returns the value of a constant scale, or none.
std::optional<float> getConstantScale(mlir::Value scale);

/// True if two scales are one value, or constants of equal value.
bool isSameScale(mlir::Value a, mlir::Value b);

} // namespace scalify

#endif // SCALIFY_SCALING_SCALEARITHMETIC_H
