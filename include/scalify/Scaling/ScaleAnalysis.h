//===- ScaleAnalysis.h - The facts of every value of a function -*- C++ -*-===//

#ifndef SCALIFY_SCALING_SCALEANALYSIS_H
#define SCALIFY_SCALING_SCALEANALYSIS_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"

namespace scalify {

/// Facts of all values of a function, inferred forward through the rules. A
/// donated state whose scale is not declared takes the scale of what is
/// written into it: a fixpoint over the step.
class ScaleAnalysis {
public:
  /// With `composites`, expressions that are one known function get its facts
  /// (Rules/Composites.cpp); without, each op's own rule stands.
  explicit ScaleAnalysis(mlir::FunctionOpInterface func,
                         bool composites = true);

  const ScaleFacts &lookup(mlir::Value value) const;
  /// Ops without a rule that touch floating-point tensors.
  llvm::ArrayRef<mlir::Operation *> getOpsWithoutRule() const {
    return withoutRule;
  }
  /// Floating-point tensor arguments whose scale was neither declared nor found
  /// by the fixpoint: they count as 2^0.
  llvm::ArrayRef<mlir::BlockArgument> getUndeclaredArguments() const {
    return undeclared;
  }

private:
  void seedArguments();
  ScaleFacts seedArgument(mlir::BlockArgument arg);
  void inferBody();
  bool updateState();

  mlir::FunctionOpInterface func;
  bool composites;
  llvm::DenseMap<mlir::Value, ScaleFacts> facts;
  llvm::SmallVector<mlir::Operation *> withoutRule;
  llvm::SmallVector<mlir::BlockArgument> undeclared;
};

/// Whether the type is a tensor of floating-point elements.
bool isFloatTensor(mlir::Type type);

/// Whether the type is a tensor that `scalify.rescale` takes: f32, f16, bf16.
bool isScalableTensor(mlir::Type type);

} // namespace scalify

#endif // SCALIFY_SCALING_SCALEANALYSIS_H
