//===- ElementFunctions.h - Elementwise functions of a root -----*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_NOISE_ELEMENTFUNCTIONS_H
#define SCALIFY_LIB_SCALING_NOISE_ELEMENTFUNCTIONS_H

#include "scalify/Scaling/ScaleAnalysis.h"

#include <array>

namespace scalify {

/// Elementwise ops from one tensor to another are one function of its elements,
/// however often they read it. The gate x * logistic(x) has one slope; its ops,
/// taken as independent, would count the error of x twice. The function is
/// sampled at points that are distributed as the elements.
class ElementFunctions {
public:
  static constexpr unsigned kNumPoints = 33;
  using Points = std::array<double, kNumPoints>;
  struct Function {
    mlir::Value root;
    Points values, slopes;
  };

  explicit ElementFunctions(const ScaleAnalysis &facts) : facts(facts) {}

  /// Returns the op's function, or null. Call it for every op, in order.
  const Function *visit(mlir::Operation *op);
  /// Returns E[slope^2] / E[value^2].
  static double getRelativeGain(const Function &function);

private:
  std::optional<Function> getOperand(mlir::Value value, mlir::Value root) const;
  Function makeRoot(mlir::Value value) const;

  const ScaleAnalysis &facts;
  llvm::DenseMap<mlir::Value, Function> functions;
};

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_NOISE_ELEMENTFUNCTIONS_H
