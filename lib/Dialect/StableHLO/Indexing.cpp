//===- Indexing.cpp - Ops that read or write at run-time places -----------===//

#include "Assembly.h"
#include "Verification.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify::stablehlo;

#define DEFINE_COMPATIBLE(Op)                                                  \
  bool Op::isCompatibleReturnTypes(TypeRange lhs, TypeRange rhs) {             \
    return detail::areCompatibleTypes(lhs, rhs);                               \
  }
DEFINE_COMPATIBLE(DynamicSliceOp)
DEFINE_COMPATIBLE(DynamicUpdateSliceOp)
DEFINE_COMPATIBLE(GatherOp)
#undef DEFINE_COMPATIBLE

//===----------------------------------------------------------------------===//
// DynamicSliceOp and DynamicUpdateSliceOp
//===----------------------------------------------------------------------===//

/// Checks that there is one start index per dimension, all of one type.
static LogicalResult checkStartIndices(std::optional<Location> location,
                                       StringRef opName, ValueRange starts,
                                       int64_t rank) {
  if (failed(checkLength(location, opName, "start indices", starts.size(),
                         rank)))
    return failure();
  if (!starts.empty() && !llvm::all_equal(starts.getTypes()))
    return emitOptionalError(location, "'", opName,
                             "' op needs start indices of one type");
  return success();
}

LogicalResult DynamicSliceOp::inferReturnTypes(MLIRContext *,
                                               std::optional<Location> location,
                                               Adaptor adaptor,
                                               SmallVectorImpl<Type> &types) {
  auto operand = cast<RankedTensorType>(adaptor.getOperand().getType());
  ArrayRef<int64_t> sizes = adaptor.getSliceSizes();
  int64_t rank = operand.getRank();
  // dynamic_slice_c2, dynamic_slice_c3
  if (failed(checkStartIndices(location, getOperationName(),
                               adaptor.getStartIndices(), rank)) ||
      failed(checkLength(location, getOperationName(), "sizes", sizes.size(),
                         rank)))
    return failure();
  // dynamic_slice_c4
  for (int64_t dim = 0; dim < rank; ++dim) {
    int64_t size = operand.getDimSize(dim);
    if (sizes[dim] < 0 || (ShapedType::isStatic(size) && sizes[dim] > size))
      return emitOptionalError(location, "'", getOperationName(),
                               "' op cannot take ", sizes[dim],
                               " elements of dimension ", dim, " of ", operand);
  }
  // dynamic_slice_c5
  types.push_back(RankedTensorType::get(sizes, operand.getElementType()));
  return success();
}

LogicalResult DynamicUpdateSliceOp::inferReturnTypes(
    MLIRContext *, std::optional<Location> location, Adaptor adaptor,
    SmallVectorImpl<Type> &types) {
  auto operand = cast<RankedTensorType>(adaptor.getOperand().getType());
  auto update = cast<RankedTensorType>(adaptor.getUpdate().getType());
  // dynamic_update_slice_c2, dynamic_update_slice_c3
  if (operand.getElementType() != update.getElementType() ||
      operand.getRank() != update.getRank())
    return emitOptionalError(location, "'", getOperationName(),
                             "' op needs an update of the operand's rank and "
                             "element type but got ",
                             operand, " and ", update);
  // dynamic_update_slice_c4, dynamic_update_slice_c5
  if (failed(checkStartIndices(location, getOperationName(),
                               adaptor.getStartIndices(), operand.getRank())))
    return failure();
  // dynamic_update_slice_c6
  for (auto [dim, sizes] : llvm::enumerate(
           llvm::zip(operand.getShape(), update.getShape()))) {
    auto [whole, part] = sizes;
    if (ShapedType::isStatic(whole) && ShapedType::isStatic(part) &&
        part > whole)
      return emitOptionalError(location, "'", getOperationName(),
                               "' op has an update larger than the operand in "
                               "dimension ",
                               dim, ": ", update, " and ", operand);
  }
  // dynamic_update_slice_c1
  types.push_back(operand);
  return success();
}

//===----------------------------------------------------------------------===//
// GatherOp
//===----------------------------------------------------------------------===//

LogicalResult GatherOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> location,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  auto operand = cast<RankedTensorType>(adaptor.getOperand().getType());
  auto indices = cast<RankedTensorType>(adaptor.getStartIndices().getType());
  GatherDimensionNumbersAttr dims = adaptor.getDimensionNumbers();
  ArrayRef<int64_t> sizes = adaptor.getSliceSizes();
  StringRef name = getOperationName();
  SmallVector<int64_t> dropped(dims.getCollapsedSliceDims());
  llvm::append_range(dropped, dims.getOperandBatchingDims());
  // gather_c10, gather_c14
  if (failed(checkLength(location, name, "slice_sizes", sizes.size(),
                         operand.getRank())) ||
      failed(checkDims(location, name, "collapsed or batching dimension",
                       dropped, operand.getRank())))
    return failure();
  // The window: slice sizes that are not dropped.
  SmallVector<int64_t> window;
  for (auto [dim, size] : llvm::enumerate(sizes))
    if (!llvm::is_contained(dropped, static_cast<int64_t>(dim)))
      window.push_back(size);
  // The batch: sizes of the indices without the index vector.
  SmallVector<int64_t> batch;
  for (auto [dim, size] : llvm::enumerate(indices.getShape()))
    if (static_cast<int64_t>(dim) != dims.getIndexVectorDim())
      batch.push_back(size);
  int64_t rank = window.size() + batch.size();
  // gather_c1, gather_c4, gather_c5
  if (failed(checkLength(location, name, "offset_dims",
                         dims.getOffsetDims().size(), window.size())) ||
      failed(checkDims(location, name, "offset_dims", dims.getOffsetDims(),
                       rank)))
    return failure();
  // gather_c22
  SmallVector<int64_t> shape;
  auto nextWindow = window.begin(), nextBatch = batch.begin();
  for (int64_t dim = 0; dim < rank; ++dim)
    shape.push_back(llvm::is_contained(dims.getOffsetDims(), dim)
                        ? *nextWindow++
                        : *nextBatch++);
  types.push_back(RankedTensorType::get(shape, operand.getElementType()));
  return success();
}

//===----------------------------------------------------------------------===//
// ScatterOp
//===----------------------------------------------------------------------===//

LogicalResult ScatterOp::verify() {
  // scatter_c23
  if (!detail::areCompatibleTypes(getInputs().getTypes(), getResultTypes()))
    return emitOpError("needs results of the inputs' types");
  return success();
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Indexing.cpp.inc"
