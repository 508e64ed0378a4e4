//===- KernelBody.h - Builder of a kernel's region --------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_KERNELBODY_H
#define SCALIFY_LIB_FUSION_KERNELBODY_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/IRMapping.h"

namespace scalify {

/// Clones the ops of a cluster into the region of a kernel, and collects the
/// buffers that it reads and its casts.
class KernelBody {
public:
  /// Returns the buffer of a scale, which may be an entry of an argument.
  using ScaleBuffer =
      llvm::function_ref<mlir::Value(stablehlo::ConstantOp, mlir::IntegerAttr)>;

  explicit KernelBody(mlir::Location loc)
      : loc(loc), block(&region.emplaceBlock()), builder(loc.getContext()) {
    builder.setInsertionPointToEnd(block);
  }

  /// Reads `value` from `buffer`.
  void addInput(mlir::Value value, mlir::Value buffer);
  /// Reads the buffer in which a scatter works. It is separate from the buffer
  /// by which other ops read the scatter's input, since these must see the
  /// input unchanged. Returns its index in `reads`.
  int64_t addScatter(stablehlo::ScatterOp op, mlir::Value buffer);
  void copy(mlir::Operation *op, ScaleBuffer getScaleBuffer);
  /// Yields the clones of `outputs`, and erases ops that these do not need.
  void finish(llvm::ArrayRef<mlir::Value> outputs);

  mlir::Region region;
  llvm::SmallVector<mlir::Value> reads;
  /// Name, location, format and number of elements of each counted cast.
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
