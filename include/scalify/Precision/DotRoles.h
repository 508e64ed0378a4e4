//===- DotRoles.h - The role of each dot in the model -----------*- C++ -*-===//

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

/// Classifies the dots of a function by its structure; no names are needed. A
/// linear layer multiplies an argument of the step by the layer's input or a
/// gradient; attention multiplies two activations under batch dimensions.
class DotRoles {
public:
  explicit DotRoles(mlir::FunctionOpInterface func);
  DotRole lookup(mlir::Operation *dot) const { return roles.lookup(dot); }
  /// True if the function has a backward, so that heads precede a loss.
  bool hasBackward() const { return backward; }

private:
  void addLayer(stablehlo::DotGeneralOp dot, DotRole role);
  std::optional<DotRole> findLayerRole(stablehlo::DotGeneralOp dot) const;
  void findHeadsAndRouters(mlir::FunctionOpInterface func);
  void findEmbeddings(mlir::FunctionOpInterface func);
  void findAttention(mlir::FunctionOpInterface func);

  llvm::DenseMap<mlir::Operation *, DotRole> roles;
  LayerTable layers;
  /// The roles of the weights of heads and routers.
  llvm::DenseMap<mlir::Value, DotRole> layerRoles;
  bool backward;
};

using stablehlo::isContraction;

/// Looks through ops that only move data or mark a scale.
mlir::Value getDotOperandRoot(mlir::Value operand);

} // namespace scalify

#endif // SCALIFY_PRECISION_DOTROLES_H
