//===- Layouts.h - Whole values and their parts -----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_LAYOUTS_H
#define SCALIFY_LIB_DISTRIBUTION_LAYOUTS_H

#include "DeviceMesh.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/DeviceTables.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>

namespace scalify {

using Axes = llvm::ArrayRef<sdy::AxisRefAttr>;
using Digits = llvm::SmallVector<std::pair<int64_t, int64_t>>;

inline constexpr llvm::StringLiteral kShardingAttr = "sdy.sharding";

/// How each value of a partitioned function lies on the devices. Values stay
/// asked for by what they were when this was made, also after their types
/// have become those of parts.
class Layouts {
public:
  /// Reads shardings of a function's values; fails with an error at the op
  /// whose sharding cannot be had.
  static llvm::FailureOr<Layouts> read(mlir::func::FuncOp function);

  const DeviceMesh &getMesh() const { return *mesh; }

  /// The type of the whole value.
  mlir::RankedTensorType getWhole(mlir::Value value) const;
  /// The type of a device's part.
  mlir::RankedTensorType getLocal(mlir::Value value) const;
  /// The axes that split a dimension.
  Axes getAxes(mlir::Value value, int64_t dim) const;
  /// Whether a dimension is split in more than one part.
  bool isSplit(mlir::Value value, int64_t dim) const;

  /// Gives all values the types of their parts.
  void setLocalTypes();

  /// Notes that each device along axes has a part of what a value stands for,
  /// until a collective joins them.
  void setPartial(mlir::Value value, Axes axes);
  /// The digits of these axes; none for a value that is complete.
  Digits getPartial(mlir::Value value) const { return partial.lookup(value); }
  void setPartial(mlir::Value value, Digits digits);

  /// Lets a value be read in place of another one that it lies as.
  void replace(mlir::Value value, mlir::Value by);

private:
  struct Layout {
    mlir::RankedTensorType whole;
    mlir::RankedTensorType local;
    sdy::TensorShardingAttr sharding; // null where all devices have all
  };

  llvm::LogicalResult readOp(mlir::Operation *op);
  llvm::LogicalResult readManual(sdy::ManualComputationOp op);
  llvm::LogicalResult add(mlir::Value value, sdy::TensorShardingAttr sharding,
                          mlir::Operation *op);
  llvm::LogicalResult addMesh(sdy::MeshAttr found, mlir::Operation *op);

  sdy::MeshAttr meshAttr;
  std::shared_ptr<DeviceMesh> mesh;
  llvm::DenseMap<mlir::Value, Layout> layouts;
  llvm::DenseMap<mlir::Value, Digits> partial;
};

/// For each dimension (stride, size) of what splits it, the major one first.
mlir::ArrayAttr getParts(sdy::TensorShardingAttr sharding,
                         const DeviceMesh &mesh);

/// Whether an op is one of sdy's collectives.
bool isCollective(mlir::Operation *op);

/// Writes an sdy collective for one device, and erases it.
llvm::LogicalResult localizeCollective(mlir::Operation *op, Layouts &layouts,
                                       int64_t &numChannels);

/// Makes an op's attributes, and what it computes from places, those of parts.
/// Its operands and results have the types of parts already.
llvm::LogicalResult localizeOp(mlir::Operation *op, Layouts &layouts);

/// The part of a whole value that a device has, cut out by its number.
mlir::Value cutPart(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value whole, mlir::RankedTensorType local,
                    llvm::function_ref<Axes(int64_t)> axesOf,
                    const DeviceMesh &mesh);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_LAYOUTS_H
