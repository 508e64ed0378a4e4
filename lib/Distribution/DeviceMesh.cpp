//===- DeviceMesh.cpp - Device numbers and shard indices ------------------===//

#include "DeviceMesh.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace scalify;

DeviceMesh::Digit DeviceMesh::getDigit(sdy::AxisRefAttr axis) const {
  int64_t stride = 1;
  for (sdy::MeshAxisAttr other : llvm::reverse(mesh.getAxes())) {
    if (other.getName() != axis.getName()) {
      stride *= other.getSize();
      continue;
    }
    if (!axis.isSubAxis())
      return {stride, other.getSize()};
    // `"x":(2)4` of 16 devices: pre-size 2, so the stride is 16 / (2 * 4).
    int64_t behind = other.getSize() / (axis.getPreSize() * axis.getSubSize());
    return {stride * behind, axis.getSubSize()};
  }
  llvm_unreachable("the sharding verifier rejects unknown axes");
}

int64_t DeviceMesh::getNumParts(ArrayRef<sdy::AxisRefAttr> axes) const {
  int64_t parts = 1;
  for (sdy::AxisRefAttr axis : axes)
    parts *= getDigit(axis).size;
  return parts;
}

SmallVector<std::pair<int64_t, int64_t>>
DeviceMesh::getSplit(ArrayRef<sdy::AxisRefAttr> axes) const {
  SmallVector<std::pair<int64_t, int64_t>> split;
  for (sdy::AxisRefAttr axis : axes) {
    auto [stride, size] = getDigit(axis);
    if (size == 1)
      continue;
    if (!split.empty() && split.back().first == stride * size)
      split.back() = {stride, split.back().second * size};
    else
      split.push_back({stride, size});
  }
  return split;
}

SmallVector<std::pair<int64_t, int64_t>>
DeviceMesh::getDigits(ArrayRef<sdy::AxisRefAttr> axes) const {
  SmallVector<std::pair<int64_t, int64_t>> digits;
  for (auto [stride, size] : getSplit(axes))
    for (int64_t factor = 2; size > 1; ++factor)
      for (; size % factor == 0; size /= factor)
        digits.push_back({stride * (size / factor), factor});
  llvm::sort(digits);
  return digits;
}

int64_t DeviceMesh::getPlace(int64_t device,
                             ArrayRef<sdy::AxisRefAttr> axes) const {
  int64_t place = 0;
  for (sdy::AxisRefAttr axis : axes) {
    Digit digit = getDigit(axis);
    place = place * digit.size + device / digit.stride % digit.size;
  }
  return place;
}

DenseIntElementsAttr
DeviceMesh::getGroups(ArrayRef<sdy::AxisRefAttr> axes) const {
  int64_t parts = getNumParts(axes);
  // Keyed by the member whose indices along all the axes are 0.
  llvm::MapVector<int64_t, SmallVector<int64_t>> groups;
  for (int64_t device = 0; device < getNumDevices(); ++device) {
    int64_t first = device;
    for (sdy::AxisRefAttr axis : axes) {
      Digit digit = getDigit(axis);
      first -= device / digit.stride % digit.size * digit.stride;
    }
    SmallVector<int64_t> &group = groups[first];
    group.resize(parts);
    group[getPlace(device, axes)] = device;
  }
  SmallVector<int64_t> flat;
  for (auto &[first, group] : groups)
    llvm::append_range(flat, group);
  Type i64 = IntegerType::get(mesh.getContext(), 64);
  auto rows = static_cast<int64_t>(groups.size());
  return DenseIntElementsAttr::get(RankedTensorType::get({rows, parts}, i64),
                                   flat);
}
