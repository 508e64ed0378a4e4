//===- LocalRule.h - Rules of ops on one device's parts ---------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_LOCALRULE_H
#define SCALIFY_LIB_DISTRIBUTION_LOCALRULE_H

#include "Layouts.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// Rules, one for each op or family. `op` has types of parts already.
class LocalRule {
public:
  LocalRule(mlir::Operation *op, Layouts &layouts)
      : op(op), layouts(layouts), builder(op) {}

  llvm::LogicalResult run();

private:
  /// Indices of a gather or scatter: component k is a place along dims[k] of
  /// `into`.
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
  llvm::LogicalResult onPairs();
  llvm::LogicalResult onOther();

  /// The axes that split some dimensions.
  llvm::SmallVector<sdy::AxisRefAttr>
  getAxes(mlir::Value value, llvm::ArrayRef<int64_t> dims) const;
  mlir::Value widen(mlir::Value indices);
  /// A tensor of indices' type with one number for each component.
  mlir::Value perComponent(const Indices &indices,
                           llvm::ArrayRef<int64_t> numbers);
  mlir::Value broadcastComponents(const Indices &indices, mlir::Value numbers);
  /// Indices into the whole value as indices into the device's part.
  mlir::Value shift(const Indices &indices);
  /// Where shifted indices are inside of the part: of the shape of the indices
  /// without their components.
  mlir::Value findInside(const Indices &indices, mlir::Value shifted);
  void gatherFromPart(stablehlo::GatherOp op, const Indices &indices);
  llvm::LogicalResult keepFirst(stablehlo::ScatterOp op, Axes axes);

  int64_t rankOf(mlir::Value value) const {
    return layouts.getWhole(value).getRank();
  }
  int64_t wholeSize(mlir::Value value, int64_t dim) const {
    return layouts.getWhole(value).getDimSize(dim);
  }
  int64_t localSize(mlir::Value value, int64_t dim) const {
    return layouts.getLocal(value).getDimSize(dim);
  }

  /// Notes that devices along axes have parts of a result. Fails where these
  /// axes split it too: a device would lack what the others have for its part.
  llvm::LogicalResult makePartial(mlir::Value result, Axes axes);
  /// Fails where a dimension is split.
  llvm::LogicalResult needWhole(mlir::Value value, int64_t dim);
  llvm::LogicalResult needAllWhole(mlir::ValueRange values);
  /// Fails where two dimensions are not split by the same axes.
  llvm::LogicalResult needAlike(mlir::Value one, int64_t dim, mlir::Value other,
                                int64_t otherDim);
  /// The same of all dimensions of two values of one shape.
  llvm::LogicalResult needAlike(mlir::Value one, mlir::Value other);

  mlir::Operation *op;
  Layouts &layouts;
  mlir::OpBuilder builder;
};

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_LOCALRULE_H
