//===- Shards.h - Elementwise values in shares ------------------*- C++ -*-===//
//
// A replicated value can be computed in shares: it is flattened row-major,
// padded with zeros, and cut into equal pieces, one for each rank of a group.
// Of a stack, which loops over layers write and read slice by slice, each slice
// is cut this way, and a share is a stack of pieces: the sum or all-gather of
// one layer needs no other layer.
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
  /// Returns the number of elements of a share: whole chunks, the same on all
  /// ranks.
  int64_t getShare(int64_t elements) const;
  /// Builds the index of this rank's share.
  mlir::Value getPlace(mlir::OpBuilder &builder, mlir::Location loc) const;

private:
  const DeviceMesh &mesh;
  llvm::SmallVector<sdy::AxisRefAttr> axes;
  mlir::DenseIntElementsAttr groups;
  int64_t numRanks;
};

/// True if an op reorders or reshapes the elements of its operand, or sums
/// along dimensions of one element.
bool movesElements(mlir::Operation *op);

/// Returns the value before transposes and other moves of elements.
mlir::Value stripMoves(mlir::Value value);

/// Builds shares of values.
class Shards {
public:
  Shards(const ShareGroup &group, const stablehlo::StackShapes &stacks,
         int64_t &numChannels)
      : group(group), stacks(stacks), numChannels(numChannels) {}

  /// Records the share of a value, which then need not be computed.
  void set(mlir::Value value, mlir::Value share) { shares[value] = share; }
  bool knows(mlir::Value value) const { return shares.contains(value); }
  /// Returns a rank's share of a value. Elementwise ops are cloned for shares,
  /// sums over the group become reduce-scatters, and other values are sliced.
  mlir::Value get(mlir::Value value);
  /// True if get() slices nothing large.
  bool isShared(mlir::Value value) const;
  /// Returns the type of the share of a value of this type.
  mlir::RankedTensorType getShareType(mlir::RankedTensorType type) const;
  /// Returns the type of all ranks' shares, concatenated.
  mlir::RankedTensorType getPaddedType(mlir::RankedTensorType type) const;
  /// True if shares of a value of this type are padded.
  bool isFilled(mlir::RankedTensorType type) const {
    return getPaddedType(type).getNumElements() != type.getNumElements();
  }
  /// True if the padding of a value's share is zero.
  bool isZeroInPadding(mlir::Value value) const;

  /// All-gathers the whole value from shares.
  mlir::Value gather(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value share, mlir::RankedTensorType type);
  /// Builds the sum of all elements of the reduced value, in chunks of the
  /// ranks' shares.
  mlir::Value sum(stablehlo::ReduceOp reduce);

private:
  /// Returns the leading dimensions of a stack; none for other types.
  llvm::ArrayRef<int64_t> slicesOf(mlir::RankedTensorType type) const;
  bool hasSameSlices(mlir::Value a, mlir::Value b) const;
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
  llvm::DenseMap<mlir::Value, bool> reads; // results of readsShare()
};

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_SHARDS_H
