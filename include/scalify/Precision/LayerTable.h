//===- LayerTable.h - Which layers gradients of weights are of --*- C++ -*-===//

#ifndef SCALIFY_PRECISION_LAYERTABLE_H
#define SCALIFY_PRECISION_LAYERTABLE_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace scalify {

/// Layers by their weight, with what multiplies it: inputs in the forward,
/// gradients of outputs in the backward. A gradient of a weight has the weight
/// as no operand; it is the product of such a pair.
class LayerTable {
public:
  /// `operand` is the weight as the dot reads it.
  void addForward(mlir::Value weight, mlir::Value operand, mlir::Value input);
  void addInputGradient(mlir::Value weight, mlir::Value gradient);
  bool contains(mlir::Value weight) const { return layers.contains(weight); }

  /// The weights of which the product may be the gradient: by input and
  /// gradient; else by the gradient and the size of the weight, as where a
  /// checkpoint makes the input again; else, of layers whose input has no
  /// gradient, by input and size.
  llvm::SmallVector<mlir::Value> findWeights(mlir::Operation *dot) const;

private:
  struct Layer {
    llvm::SmallSetVector<mlir::Value, 4> inputs, gradients;
    llvm::SmallSetVector<int64_t, 2> sizes; // as dots see the weight
  };
  llvm::MapVector<mlir::Value, Layer> layers;
};

} // namespace scalify

#endif // SCALIFY_PRECISION_LAYERTABLE_H
