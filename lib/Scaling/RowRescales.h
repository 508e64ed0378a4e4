//===- RowRescales.h - Scales of rows that the step measures ----*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_ROWRESCALES_H
#define SCALIFY_LIB_SCALING_ROWRESCALES_H

#include "scalify/Dialect/Scalify/ScalifyHints.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace scalify {

/// Propagates row scales from their measurement to the dots that can use them:
/// those that do not contract along the rows. There the operand is divided by
/// its row scales before the cast, and the result is multiplied by them. So a
/// cast still has one scale, and the program's values do not change.
class RowScales {
public:
  RowScales(mlir::OpBuilder &builder, bool strict, bool remarks)
      : builder(builder), strict(strict), remarks(remarks) {}

  /// Measures the rows of a point, relative to the scale `base`. Returns the
  /// largest row scale, which is the scale of the tensor.
  mlir::Value measure(RescalePointOp point, mlir::Value base,
                      mlir::Value predicted);
  /// Propagates row scales through an op that keeps rows apart. `correction`
  /// returns a value's scale over its predicted one, or null.
  void flow(mlir::Operation &op,
            llvm::function_ref<mlir::Value(mlir::Value)> correction);
  /// Records the dots that take the row scales of a hint's value. The hint must
  /// still have its predicted scale. A dot that cannot take them gets a remark,
  /// or an error under strict.
  void visit(ScaleHintOp hint);
  /// Rewrites the recorded dots. Fails if there was an error.
  llvm::LogicalResult finish();

private:
  struct Use {
    ScaleHintOp hint;
    mlir::OpOperand *operand;
    mlir::Value rows, scale;
  };
  mlir::Value spread(mlir::Location loc, mlir::Value scale, mlir::Type like);
  mlir::Value through(mlir::Operation &op, mlir::Value rows);
  mlir::Value product(mlir::Operation &op,
                      llvm::function_ref<mlir::Value(mlir::Value)> correction);
  ScaleHintOp normalise(const Use &use);
  void restore(const Use &use);

  mlir::OpBuilder &builder;
  bool strict, remarks;
  /// Measured over predicted scales, in the value's shape with ones for the
  /// dimensions that share a scale.
  llvm::DenseMap<mlir::Value, mlir::Value> rows;
  llvm::SmallVector<Use> uses;
  llvm::LogicalResult error = llvm::success();
};

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_ROWRESCALES_H
