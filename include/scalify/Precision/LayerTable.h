//===- LayerTable.h - Match gradients of weights to layers ------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_LAYERTABLE_H
#define SCALIFY_PRECISION_LAYERTABLE_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace scalify {

/// Maps the weight of a layer to the values that multiply it: inputs in the
/// forward, output gradients in the backward. The weight is no operand of its
/// gradient, which is the product of an input and an output gradient.
class LayerTable {
public:
  /// `operand` is the weight as the dot reads it.
  void addForward(mlir::Value weight, mlir::Value operand, mlir::Value input);
  void addInputGradient(mlir::Value weight, mlir::Value gradient);
  bool contains(mlir::Value weight) const { return layers.contains(weight); }

  /// Returns the weights whose gradient `dot` may compute. Matches input and
  /// output gradient; else output gradient and weight size, as when a
  /// checkpoint rematerialises the input; else, for layers whose input has no
  /// gradient, input and size.
  llvm::SmallVector<mlir::Value> findWeights(mlir::Operation *dot) const;

private:
  struct Layer {
    llvm::SmallSetVector<mlir::Value, 4> inputs, gradients;
    llvm::SmallSetVector<int64_t, 2> sizes; // of the weight as dots read it
  };
  llvm::MapVector<mlir::Value, Layer> layers;
};

} // namespace scalify

#endif // SCALIFY_PRECISION_LAYERTABLE_H
