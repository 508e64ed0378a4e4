//===- DotRoles.h - Which part of a model a dot belongs to ------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_DOTROLES_H
#define SCALIFY_PRECISION_DOTROLES_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Precision/LayerTable.h"
#include "scalify/Precision/ValueOrigin.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>

namespace scalify {

/// Classifies the dots of a function from its structure: no names are needed.
/// A linear layer multiplies an argument of the step, its input or its
/// gradient; attention two activations under batch dimensions.
class DotRoles {
public:
  explicit DotRoles(mlir::FunctionOpInterface func);
  DotRole lookup(mlir::Operation *dot) const { return roles.lookup(dot); }
  /// Whether there are gradients, and so a loss that heads come before.
  bool hasBackward() const { return backward; }

private:
  void addLayer(stablehlo::DotGeneralOp dot, DotRole role);
  std::optional<DotRole> findLayerRole(stablehlo::DotGeneralOp dot) const;
  void findHeadsAndRouters(mlir::FunctionOpInterface func);
  void findEmbeddings(mlir::FunctionOpInterface func);
  void findAttention(mlir::FunctionOpInterface func);

  llvm::DenseMap<mlir::Operation *, DotRole> roles;
  LayerTable layers;
  /// Of the weights of heads and routers.
  llvm::DenseMap<mlir::Value, DotRole> layerRoles;
  bool backward;
};

using stablehlo::isContraction;

/// The value behind ops that only move data or mark its scale.
mlir::Value getDotOperandRoot(mlir::Value operand);

} // namespace scalify

#endif // SCALIFY_PRECISION_DOTROLES_H
