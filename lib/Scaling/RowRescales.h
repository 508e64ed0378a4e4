//===- RowRescales.h - Scales of rows that the step measures ----*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_ROWRESCALES_H
#define SCALIFY_LIB_SCALING_ROWRESCALES_H

#include "scalify/Dialect/Scalify/ScalifyHints.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace scalify {

/// Carries the scales of rows from where they are measured to the dots that
/// can use them: those that do not contract along the rows. There the operand
/// is divided by its rows' scales before the cast, and the result multiplied
/// by them. So a cast has one scale, whatever its rows have, and the value that
/// a program computes is the same.
class RowScales {
public:
  RowScales(mlir::OpBuilder &builder, bool strict, bool remarks)
      : builder(builder), strict(strict), remarks(remarks) {}

  /// Measures the rows of a point from the scale `base`; returns the largest
  /// of their scales, which is that of the tensor.
  mlir::Value measure(RescalePointOp point, mlir::Value base,
                      mlir::Value predicted);
  /// Carries rows through an op in which they stay rows. `correction` gives a
  /// value's scale over its predicted one, or null.
  void flow(mlir::Operation &op,
            llvm::function_ref<mlir::Value(mlir::Value)> correction);
  /// Notes which dots take the rows of a hint's value; must see the hint while
  /// its scale is the predicted one. For a dot that cannot take them a remark,
  /// or under strict an error.
  void visit(ScaleHintOp hint);
  /// Rewrites the dots that were noted; fails where there was an error.
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
  /// Measured over predicted, of rank and shape of the value, with ones.
  llvm::DenseMap<mlir::Value, mlir::Value> rows;
  llvm::SmallVector<Use> uses;
  llvm::LogicalResult error = llvm::success();
};

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_ROWRESCALES_H
