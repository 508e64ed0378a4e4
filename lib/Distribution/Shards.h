//===- Shards.h - Elementwise values on one rank's share --------*- C++ -*-===//
//
// A value that ranks have alike can be computed in shares: its elements in
// row-major order, filled up with zeros, cut into equal pieces, one for each
// rank of a group. Of a stack, which loops over layers write and read slice by
// slice, each slice is cut so, and a share is a stack of their pieces: what is
// summed or gathered of one layer needs no other.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_DISTRIBUTION_SHARDS_H
#define SCALIFY_LIB_DISTRIBUTION_SHARDS_H

#include "DeviceMesh.h"

#include "scalify/Dialect/StableHLO/Stacks.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace scalify {

/// The ranks that share a value.
class ShareGroup {
public:
  ShareGroup(const DeviceMesh &mesh, llvm::ArrayRef<sdy::AxisRefAttr> axes);

  mlir::DenseIntElementsAttr getGroups() const { return groups; }
  llvm::ArrayRef<sdy::AxisRefAttr> getAxes() const { return axes; }
  int64_t size() const { return numRanks; }
  /// Elements of a share: whole chunks, the same on all ranks.
  int64_t getShare(int64_t elements) const;
  /// The number of this rank's share.
  mlir::Value getPlace(mlir::OpBuilder &builder, mlir::Location loc) const;

private:
  const DeviceMesh &mesh;
  llvm::SmallVector<sdy::AxisRefAttr> axes;
  mlir::DenseIntElementsAttr groups;
  int64_t numRanks;
};

/// Whether an op gives the elements of its operand in another order or shape,
/// or sums along dimensions of one element.
bool movesElements(mlir::Operation *op);

/// The value behind what only moves elements, as transposes do.
mlir::Value stripMoves(mlir::Value value);

/// Writes shares of values.
class Shards {
public:
  Shards(const ShareGroup &group, const stablehlo::StackShapes &stacks,
         int64_t &numChannels)
      : group(group), stacks(stacks), numChannels(numChannels) {}

  /// Notes the share of a value, which need not be computed.
  void set(mlir::Value value, mlir::Value share) { shares[value] = share; }
  bool knows(mlir::Value value) const { return shares.contains(value); }
  /// A rank's share of a value: elementwise ops are done on shares, of a sum
  /// over the group only the share is summed; of all else the value is cut.
  mlir::Value get(mlir::Value value);
  /// Whether get() cuts nothing that is large.
  bool isShared(mlir::Value value) const;
  /// The share of a value of this type.
  mlir::RankedTensorType getShareType(mlir::RankedTensorType type) const;
  /// All ranks' shares side by side.
  mlir::RankedTensorType getFilledType(mlir::RankedTensorType type) const;
  /// Whether shares of a value of this type are filled up.
  bool isFilled(mlir::RankedTensorType type) const {
    return getFilledType(type).getNumElements() != type.getNumElements();
  }
  /// Whether what a share is filled up with is zero.
  bool isZeroInPadding(mlir::Value value) const;

  /// The whole value of all ranks' shares.
  mlir::Value gather(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value share, mlir::RankedTensorType type);
  /// The sum of all elements of `value`, of chunks of the ranks' shares.
  mlir::Value sum(stablehlo::ReduceOp reduce);

private:
  /// The slices of a stack; nothing of what is cut as a whole.
  llvm::ArrayRef<int64_t> slicesOf(mlir::RankedTensorType type) const;
  bool isCutAlike(mlir::Value a, mlir::Value b) const;
  mlir::Value make(mlir::Value value);
  bool readsShare(mlir::Value value);
  mlir::Value cut(mlir::Value value);
  mlir::Value onShares(mlir::Operation *op);
  mlir::Value reduceScatter(mlir::Value value);
  mlir::Value fill(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Value value);
  mlir::Value gatherLast(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value part, int64_t size);
  bool isSum(mlir::Value value) const;

  const ShareGroup &group;
  const stablehlo::StackShapes &stacks;
  int64_t &numChannels;
  llvm::DenseMap<mlir::Value, mlir::Value> shares;
  llvm::DenseMap<mlir::Value, bool> reads; // what readsShare() found
};

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_SHARDS_H
