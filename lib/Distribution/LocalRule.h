//===- LocalRule.h - Rules of ops on one device's shards --------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_LOCALRULE_H
#define SCALIFY_LIB_DISTRIBUTION_LOCALRULE_H

#include "Layouts.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// The rules, one for each op or family. `op` has local types already.
class LocalRule {
public:
  LocalRule(mlir::Operation *op, Layouts &layouts)
      : op(op), layouts(layouts), builder(op) {}

  llvm::LogicalResult run();

private:
  /// Indices of a gather or scatter: component k indexes `into` along dims[k].
  struct Indices {
    mlir::Value value;
    int64_t vectorDim;
    mlir::Value into;
    llvm::ArrayRef<int64_t> dims;

    bool isVector() const {
      return vectorDim <
             llvm::cast<mlir::RankedTensorType>(value.getType()).getRank();
    }
  };

  llvm::LogicalResult onConstant(mlir::Value result, mlir::ElementsAttr value);
  llvm::LogicalResult on(stablehlo::IotaOp op);
  llvm::LogicalResult on(stablehlo::BroadcastInDimOp op);
  llvm::LogicalResult on(stablehlo::ReshapeOp op);
  llvm::LogicalResult on(stablehlo::TransposeOp op);
  llvm::LogicalResult on(stablehlo::DotGeneralOp op);
  llvm::LogicalResult on(stablehlo::ConvolutionOp op);
  llvm::LogicalResult on(stablehlo::ReduceOp op);
  llvm::LogicalResult on(stablehlo::ReduceWindowOp op);
  llvm::LogicalResult on(stablehlo::SelectAndScatterOp op);
  llvm::LogicalResult on(stablehlo::SliceOp op);
  llvm::LogicalResult on(stablehlo::PadOp op);
  llvm::LogicalResult on(stablehlo::ConcatenateOp op);
  llvm::LogicalResult on(stablehlo::ReverseOp op);
  llvm::LogicalResult on(stablehlo::SortOp op);
  llvm::LogicalResult on(stablehlo::DynamicSliceOp op);
  llvm::LogicalResult on(stablehlo::DynamicUpdateSliceOp op);
  llvm::LogicalResult on(stablehlo::GatherOp op);
  llvm::LogicalResult on(stablehlo::ScatterOp op);
  llvm::LogicalResult on(stablehlo::ReturnOp op);
  llvm::LogicalResult on(sdy::ManualComputationOp op);
  llvm::LogicalResult onElementwise();
  llvm::LogicalResult checkOperandResultPairs();
  llvm::LogicalResult checkBatch(int64_t batchRank);
  llvm::LogicalResult checkUnsharded();

  /// Returns the axes that shard the given dimensions.
  llvm::SmallVector<sdy::AxisRefAttr>
  getAxes(mlir::Value value, llvm::ArrayRef<int64_t> dims) const;
  mlir::Value widen(mlir::Value indices);
  /// Returns a tensor of the shape and type of the indices, with one number for
  /// each component.
  mlir::Value buildPerComponent(const Indices &indices,
                                llvm::ArrayRef<int64_t> numbers);
  mlir::Value broadcastComponents(const Indices &indices, mlir::Value numbers);
  /// Makes indices into the whole value relative to the device's shard.
  mlir::Value shift(const Indices &indices);
  /// Returns a mask of the shifted indices that are inside the shard; its shape
  /// is that of the indices without the component dimension.
  mlir::Value buildInShardMask(const Indices &indices, mlir::Value shifted);
  void gatherFromPart(stablehlo::GatherOp op, const Indices &indices);
  llvm::LogicalResult keepOperandOnFirstDevice(stablehlo::ScatterOp op,
                                               Axes axes);

  int64_t rankOf(mlir::Value value) const {
    return layouts.getWhole(value).getRank();
  }
  int64_t wholeSize(mlir::Value value, int64_t dim) const {
    return layouts.getWhole(value).getDimSize(dim);
  }
  int64_t localSize(mlir::Value value, int64_t dim) const {
    return layouts.getLocal(value).getDimSize(dim);
  }

  /// Records that a result is partial along axes. Fails if these axes shard it
  /// too: a device would lack the others' contributions to its shard.
  llvm::LogicalResult makePartial(mlir::Value result, Axes axes);
  /// Fails if a dimension is sharded.
  llvm::LogicalResult requireUnsharded(mlir::Value value, int64_t dim);
  llvm::LogicalResult requireAllUnsharded(mlir::ValueRange values);
  /// Fails if the same axes do not shard both dimensions.
  llvm::LogicalResult requireSameSharding(mlir::Value one, int64_t dim,
                                          mlir::Value other, int64_t otherDim);
  /// Likewise for all dimensions of two values of one shape.
  llvm::LogicalResult requireSameSharding(mlir::Value one, mlir::Value other);

  mlir::Operation *op;
  Layouts &layouts;
  mlir::OpBuilder builder;
};

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_LOCALRULE_H
