//===- DotRoles.h - Which part of a model a dot belongs to ------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_DOTROLES_H
#define SCALIFY_PRECISION_DOTROLES_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace scalify {

enum class DotRole {
  /// A weight, its input or its gradient: a linear layer.
  Linear,
  /// Two activations under batch dimensions.
  Attention,
  /// The last linear layer before the loss, or its gradients.
  Head,
};

llvm::StringRef stringifyDotRole(DotRole role);

/// Classifies the dots of a function from its structure: no names are needed.
class DotRoles {
public:
  explicit DotRoles(mlir::FunctionOpInterface func);
  DotRole lookup(stablehlo::DotGeneralOp dot) const {
    return roles.lookup(dot.getOperation());
  }

private:
  void findHeads(mlir::FunctionOpInterface func);
  bool isHeadGradient(stablehlo::DotGeneralOp dot) const;

  llvm::DenseMap<mlir::Operation *, DotRole> roles;
  llvm::DenseSet<mlir::Value> headWeights;
  llvm::DenseSet<mlir::Value> headInputs;
  llvm::DenseSet<mlir::Value> headGradients;
};

/// The value behind ops that only move data or mark its scale.
mlir::Value getDotOperandRoot(mlir::Value operand);

/// Whether the value was made in the backward phase.
bool isGradient(mlir::Value value);

} // namespace scalify

#endif // SCALIFY_PRECISION_DOTROLES_H
