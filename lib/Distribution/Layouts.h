//===- Layouts.h - Whole and local types of values --------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_LAYOUTS_H
#define SCALIFY_LIB_DISTRIBUTION_LAYOUTS_H

#include "DeviceMesh.h"
#include "ValueShardings.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/DeviceTables.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>

namespace scalify {

using Axes = llvm::ArrayRef<sdy::AxisRefAttr>;
using Digits = llvm::SmallVector<std::pair<int64_t, int64_t>>;

/// The whole type, local type and sharding of each value of a partitioned
/// function. Lookups stay valid after the values have taken their local types.
class Layouts {
public:
  /// Reads the shardings of a function's values. Fails with an error at the op
  /// whose sharding is not supported.
  static llvm::FailureOr<Layouts> read(mlir::func::FuncOp function);

  const DeviceMesh &getMesh() const { return *mesh; }

  /// Returns the unsharded type.
  mlir::RankedTensorType getWhole(mlir::Value value) const;
  /// Returns the type of one device's shard.
  mlir::RankedTensorType getLocal(mlir::Value value) const;
  /// Returns the axes that shard a dimension.
  Axes getAxes(mlir::Value value, int64_t dim) const;
  /// True if a dimension has more than one shard.
  bool isSplit(mlir::Value value, int64_t dim) const;

  /// Gives all values their local types.
  void setLocalTypes();

  /// Records that a value is a partial result along axes, which a collective
  /// must reduce.
  void setPartial(mlir::Value value, Axes axes);
  /// Returns the digits of these axes; empty if the value is complete.
  Digits getPartial(mlir::Value value) const { return partial.lookup(value); }
  void setPartial(mlir::Value value, Digits digits);

  /// Replaces a value by another one with the same layout.
  void replace(mlir::Value value, mlir::Value by);

private:
  struct Layout {
    mlir::RankedTensorType whole;
    mlir::RankedTensorType local;
    sdy::TensorShardingAttr sharding; // null if replicated
  };

  llvm::LogicalResult readOp(mlir::Operation *op);
  llvm::LogicalResult add(mlir::Value value, sdy::TensorShardingAttr sharding,
                          mlir::Operation *op);
  llvm::LogicalResult addMesh(sdy::MeshAttr found, mlir::Operation *op);

  sdy::MeshAttr meshAttr;
  std::shared_ptr<DeviceMesh> mesh;
  llvm::DenseMap<mlir::Value, Layout> layouts;
  llvm::DenseMap<mlir::Value, Digits> partial;
};

/// Returns for each dimension the (stride, size) pairs of its axes, major
/// first.
mlir::ArrayAttr getParts(sdy::TensorShardingAttr sharding,
                         const DeviceMesh &mesh);

/// True for the collectives of the sdy dialect.
bool isCollective(mlir::Operation *op);

/// Replaces an sdy collective by stablehlo collectives of one device.
llvm::LogicalResult localizeCollective(mlir::Operation *op, Layouts &layouts,
                                       int64_t &numChannels);

/// Checks that an op can run on shards, and localises its attributes and the
/// indices that it computes with. Operands and results have local types
/// already.
llvm::LogicalResult localizeOp(mlir::Operation *op, Layouts &layouts);

/// Slices a device's shard out of a whole value, by the device number.
mlir::Value sliceShard(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Value whole, mlir::RankedTensorType local,
                       llvm::function_ref<Axes(int64_t)> axesOf,
                       const DeviceMesh &mesh);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_LAYOUTS_H
