//===- ElementFunctions.h - Values as functions of one other ----*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_NOISE_ELEMENTFUNCTIONS_H
#define SCALIFY_LIB_SCALING_NOISE_ELEMENTFUNCTIONS_H

#include "scalify/Scaling/ScaleAnalysis.h"

#include <array>

namespace scalify {

/// Elementwise ops that lead from one tensor to another are one function of its
/// elements, however often they read it: the gate x * logistic(x) has one
/// slope, where its ops, taken as independent, would count the error of x
/// twice. The function is known at points that are spread as the elements are.
class ElementFunctions {
public:
  static constexpr unsigned kNumPoints = 33;
  using Points = std::array<double, kNumPoints>;
  struct Function {
    mlir::Value root;
    Points values, slopes;
  };

  explicit ElementFunctions(const ScaleAnalysis &facts) : facts(facts) {}

  /// To be called for every op, in order; the op's function, or null.
  const Function *visit(mlir::Operation *op);
  /// E[slope^2] / E[value^2].
  static double getRelativeGain(const Function &function);

private:
  std::optional<Function> getOperand(mlir::Value value, mlir::Value root) const;
  Function makeRoot(mlir::Value value) const;

  const ScaleAnalysis &facts;
  llvm::DenseMap<mlir::Value, Function> functions;
};

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_NOISE_ELEMENTFUNCTIONS_H
