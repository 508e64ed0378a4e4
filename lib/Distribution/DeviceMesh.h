//===- DeviceMesh.h - Which device has which part ---------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_DEVICEMESH_H
#define SCALIFY_LIB_DISTRIBUTION_DEVICEMESH_H

#include "scalify/Dialect/Sdy/Sdy.h"

namespace scalify {

/// The devices of a mesh, numbered row-major over its axes, and the places
/// that axes, or parts of axes, give them.
class DeviceMesh {
public:
  explicit DeviceMesh(sdy::MeshAttr mesh) : mesh(mesh) {}

  int64_t getNumDevices() const { return mesh.getTotalSize(); }

  /// How many parts axes make of a dimension.
  int64_t getNumParts(llvm::ArrayRef<sdy::AxisRefAttr> axes) const;

  /// What axes say of the numbers of devices: strides and sizes from the major
  /// one on. Axes that split alike, as `"x"` and both of its halves, are equal
  /// so.
  llvm::SmallVector<std::pair<int64_t, int64_t>>
  getSplit(llvm::ArrayRef<sdy::AxisRefAttr> axes) const;

  /// The same by prime factors and in a fixed order: which devices hold other
  /// parts, whatever the order of the parts.
  llvm::SmallVector<std::pair<int64_t, int64_t>>
  getDigits(llvm::ArrayRef<sdy::AxisRefAttr> axes) const;

  /// The place of a device along axes, of which the first is the major one.
  int64_t getPlace(int64_t device, llvm::ArrayRef<sdy::AxisRefAttr> axes) const;

  /// Devices that differ along axes alone, each group in the order of places:
  /// the replica groups of a collective, in the order of their first devices.
  mlir::DenseIntElementsAttr
  getGroups(llvm::ArrayRef<sdy::AxisRefAttr> axes) const;

private:
  /// What one axis, or a part of it, says of the numbers of devices.
  struct Digit {
    int64_t stride; ///< devices between two that differ by one
    int64_t size;
  };
  Digit getDigit(sdy::AxisRefAttr axis) const;

  sdy::MeshAttr mesh;
};

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_DEVICEMESH_H
