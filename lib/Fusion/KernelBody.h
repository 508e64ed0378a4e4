//===- KernelBody.h - The region of a kernel from ops -----------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_KERNELBODY_H
#define SCALIFY_LIB_FUSION_KERNELBODY_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/IRMapping.h"

namespace scalify {

/// Copies the ops of a cluster into the region of a kernel, and gathers what it
/// reads and which casts it has.
class KernelBody {
public:
  /// Gives the memory of a scale, which may be an entry of an argument.
  using ScaleBuffer =
      llvm::function_ref<mlir::Value(stablehlo::ConstantOp, mlir::IntegerAttr)>;

  explicit KernelBody(mlir::Location loc)
      : loc(loc), block(&region.emplaceBlock()), builder(loc.getContext()) {
    builder.setInsertionPointToEnd(block);
  }

  /// Reads `value` from `buffer`.
  void addInput(mlir::Value value, mlir::Value buffer);
  /// What a scatter works in is apart from what else reads its input: that is
  /// read as it was. Returns its index among what is read.
  int64_t addScatter(stablehlo::ScatterOp op, mlir::Value buffer);
  void copy(mlir::Operation *op, ScaleBuffer getScaleBuffer);
  /// Yields the copies of `outputs`, and drops what these do not need.
  void finish(llvm::ArrayRef<mlir::Value> outputs);

  mlir::Region region;
  llvm::SmallVector<mlir::Value> reads;
  /// Name, place, format and number of elements of each cast that counts.
  llvm::SmallVector<mlir::Attribute> casts;

private:
  void readScale(mlir::Operation *op, mlir::Operation *copied,
                 ScaleBuffer getScaleBuffer);
  void finishCast(mlir::Operation *op, QuantizeOp copied);

  mlir::Location loc;
  mlir::Block *block;
  mlir::OpBuilder builder;
  mlir::IRMapping map;
  llvm::DenseMap<mlir::Attribute, mlir::Value> scales;
  stablehlo::ScatterOp scatter;
  mlir::Value worked;
};

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_KERNELBODY_H
