//===- DeviceMesh.h - Device numbers and shard indices ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_DEVICEMESH_H
#define SCALIFY_LIB_DISTRIBUTION_DEVICEMESH_H

#include "scalify/Dialect/Sdy/Sdy.h"

namespace scalify {

/// A mesh whose devices are numbered row-major over its axes, and the shard
/// indices of devices along axes or sub-axes.
class DeviceMesh {
public:
  explicit DeviceMesh(sdy::MeshAttr mesh) : mesh(mesh) {}

  int64_t getNumDevices() const { return mesh.getTotalSize(); }

  /// Returns the number of shards along axes.
  int64_t getNumParts(llvm::ArrayRef<sdy::AxisRefAttr> axes) const;

  /// Returns the (stride, size) pairs of device numbers along axes, the major
  /// one first and adjacent ones merged. Axes that shard identically, such as
  /// `"x"` and its two halves, give equal results.
  llvm::SmallVector<std::pair<int64_t, int64_t>>
  getSplit(llvm::ArrayRef<sdy::AxisRefAttr> axes) const;

  /// Returns the same split into prime factors and sorted: equal for axes that
  /// tell the same devices apart, whatever their order.
  llvm::SmallVector<std::pair<int64_t, int64_t>>
  getDigits(llvm::ArrayRef<sdy::AxisRefAttr> axes) const;

  /// Returns the shard index of a device along axes, the major one first.
  int64_t getPlace(int64_t device, llvm::ArrayRef<sdy::AxisRefAttr> axes) const;

  /// Returns the replica groups of devices that differ along `axes` only. Each
  /// group is in the order of shard indices; groups are in the order of their
  /// first devices.
  mlir::DenseIntElementsAttr
  getGroups(llvm::ArrayRef<sdy::AxisRefAttr> axes) const;

private:
  /// The digit of a device number that is the index along an axis or sub-axis.
  struct Digit {
    int64_t stride; ///< distance of devices whose indices differ by one
    int64_t size;
  };
  Digit getDigit(sdy::AxisRefAttr axis) const;

  sdy::MeshAttr mesh;
};

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_DEVICEMESH_H
