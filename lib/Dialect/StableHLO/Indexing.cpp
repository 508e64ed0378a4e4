//===- Indexing.cpp - Ops with indices known at run time ------------------===//

#include "Assembly.h"
#include "Verification.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify::stablehlo;

//===----------------------------------------------------------------------===//
// DynamicSliceOp and DynamicUpdateSliceOp
//===----------------------------------------------------------------------===//

/// Checks that there is one start index per dimension, all of one type.
static LogicalResult checkStartIndices(std::optional<Location> location,
                                       StringRef opName, ValueRange starts,
                                       int64_t rank) {
  if (failed(
          checkLength(location, opName, "start indices", starts.size(), rank)))
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
  for (auto [dim, sizes] :
       llvm::enumerate(llvm::zip(operand.getShape(), update.getShape()))) {
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
// GatherOp and ScatterOp
//===----------------------------------------------------------------------===//

namespace {
/// The common constraints of gather and scatter: `full` is the indexed tensor,
/// `sliced` the tensor of slices (a gather's result, a scatter's updates).
struct IndexedDims {
  std::optional<Location> location;
  StringRef opName;
  ArrayRef<int64_t> window;       // offset_dims, update_window_dims
  ArrayRef<int64_t> dropped;      // collapsed_slice_dims, inserted_window_dims
  ArrayRef<int64_t> fullBatch;    // operand_ and input_batching_dims
  ArrayRef<int64_t> indicesBatch; // start_ and scatter_indices_batching_dims
  ArrayRef<int64_t> indexMap;     // start_index_map, scatter_dims_to_operand_..
  int64_t indexVectorDim;

  LogicalResult check(RankedTensorType full, RankedTensorType indices,
                      int64_t slicedRank) const;
  bool isDropped(int64_t dim) const {
    return llvm::is_contained(dropped, dim) ||
           llvm::is_contained(fullBatch, dim);
  }
  /// Returns the sizes of the indices without the index vector's.
  SmallVector<int64_t> batchSizes(RankedTensorType indices) const;

private:
  LogicalResult checkSorted(StringRef what, ArrayRef<int64_t> dims) const;
  LogicalResult checkBatch(RankedTensorType full,
                           RankedTensorType indices) const;
};
} // namespace

LogicalResult IndexedDims::checkSorted(StringRef what,
                                       ArrayRef<int64_t> dims) const {
  if (llvm::is_sorted(dims))
    return success();
  return emitOptionalError(location, "'", opName, "' op needs sorted ", what);
}

LogicalResult IndexedDims::checkBatch(RankedTensorType full,
                                      RankedTensorType indices) const {
  // gather_c13, gather_c14, scatter_c14, scatter_c15
  if (failed(checkDims(location, opName, "indices batching dimension",
                       indicesBatch, indices.getRank())))
    return failure();
  // gather_c15, scatter_c16
  if (llvm::is_contained(indicesBatch, indexVectorDim))
    return emitOptionalError(location, "'", opName,
                             "' op has index_vector_dim ", indexVectorDim,
                             " among its batching dimensions");
  // gather_c16, scatter_c17
  if (fullBatch.size() != indicesBatch.size())
    return emitOptionalError(location, "'", opName,
                             "' op needs as many "
                             "batching dimensions of the indices as of the "
                             "operand but got ",
                             indicesBatch.size(), " and ", fullBatch.size());
  // gather_c17, scatter_c18
  for (auto [i, f] : llvm::zip(indicesBatch, fullBatch))
    if (!sizesAgree(indices.getDimSize(i), full.getDimSize(f)))
      return emitOptionalError(
          location, "'", opName, "' op has batching dimensions of sizes ",
          full.getDimSize(f), " and ", indices.getDimSize(i));
  return success();
}

LogicalResult IndexedDims::check(RankedTensorType full,
                                 RankedTensorType indices,
                                 int64_t slicedRank) const {
  // gather_c2, scatter_c22
  if (indexVectorDim < 0 || indexVectorDim > indices.getRank())
    return emitOptionalError(location, "'", opName,
                             "' op needs index_vector_dim from 0 to ",
                             indices.getRank(), " but got ", indexVectorDim);
  // gather_c1, scatter_c2
  size_t rank = window.size() + dropped.size() + fullBatch.size();
  if (failed(checkLength(location, opName,
                         "window, dropped and batching dimensions", rank,
                         full.getRank())))
    return failure();
  // gather_c4, gather_c5, scatter_c7, scatter_c8
  if (failed(checkSorted("window dimensions", window)) ||
      failed(
          checkDims(location, opName, "window dimension", window, slicedRank)))
    return failure();
  // gather_c6 to c8, c10, c11; scatter_c9 to c13
  SmallVector<int64_t> absent(dropped);
  llvm::append_range(absent, fullBatch);
  if (failed(checkDims(location, opName, "dropped or batching dimension",
                       absent, full.getRank())) ||
      failed(checkSorted("dropped dimensions", dropped)) ||
      failed(checkSorted("batching dimensions", fullBatch)) ||
      failed(checkBatch(full, indices)))
    return failure();
  // gather_c3, scatter_c19
  int64_t length = indexVectorDim < indices.getRank()
                       ? indices.getDimSize(indexVectorDim)
                       : 1;
  if (!sizesAgree(length, indexMap.size()))
    return emitOptionalError(location, "'", opName, "' op maps ",
                             indexMap.size(),
                             " indices but its index vectors "
                             "have ",
                             length);
  // gather_c18, gather_c19, scatter_c20, scatter_c21
  SmallVector<int64_t> mapped(indexMap);
  llvm::append_range(mapped, fullBatch);
  return checkDims(location, opName, "indexed or batching dimension", mapped,
                   full.getRank());
}

SmallVector<int64_t> IndexedDims::batchSizes(RankedTensorType indices) const {
  SmallVector<int64_t> sizes;
  for (auto [dim, size] : llvm::enumerate(indices.getShape()))
    if (static_cast<int64_t>(dim) != indexVectorDim)
      sizes.push_back(size);
  return sizes;
}

static IndexedDims dimsOf(std::optional<Location> location, StringRef opName,
                          GatherDimensionNumbersAttr numbers) {
  return {location,
          opName,
          numbers.getOffsetDims(),
          numbers.getCollapsedSliceDims(),
          numbers.getOperandBatchingDims(),
          numbers.getStartIndicesBatchingDims(),
          numbers.getStartIndexMap(),
          numbers.getIndexVectorDim()};
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> location,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  auto operand = cast<RankedTensorType>(adaptor.getOperand().getType());
  auto indices = cast<RankedTensorType>(adaptor.getStartIndices().getType());
  ArrayRef<int64_t> sizes = adaptor.getSliceSizes();
  StringRef name = getOperationName();
  IndexedDims dims = dimsOf(location, name, adaptor.getDimensionNumbers());
  SmallVector<int64_t> batch = dims.batchSizes(indices);
  int64_t rank = dims.window.size() + batch.size();
  // gather_c20
  if (failed(dims.check(operand, indices, rank)) ||
      failed(checkLength(location, name, "slice_sizes", sizes.size(),
                         operand.getRank())))
    return failure();
  SmallVector<int64_t> window;
  for (auto [dim, size] : llvm::enumerate(sizes)) {
    int64_t whole = operand.getDimSize(dim);
    // gather_c21; gather_c9, gather_c12 for dropped dimensions
    bool dropped = dims.isDropped(dim);
    int64_t most = dropped ? 1 : whole;
    if (size < 0 || (ShapedType::isStatic(most) && size > most) ||
        (ShapedType::isStatic(whole) && size > whole))
      return emitOptionalError(location, "'", name, "' op has slice size ",
                               size, " in dimension ", dim, " of ", operand);
    if (!dropped)
      window.push_back(size);
  }
  // gather_c22, gather_c23
  SmallVector<int64_t> shape;
  auto nextWindow = window.begin(), nextBatch = batch.begin();
  for (int64_t dim = 0; dim < rank; ++dim)
    shape.push_back(llvm::is_contained(dims.window, dim) ? *nextWindow++
                                                         : *nextBatch++);
  types.push_back(RankedTensorType::get(shape, operand.getElementType()));
  return success();
}

LogicalResult DynamicGatherOp::verify() {
  auto operand = cast<RankedTensorType>(getOperand().getType());
  auto indices = cast<RankedTensorType>(getStartIndices().getType());
  auto sizes = cast<RankedTensorType>(getSliceSizes().getType());
  auto result = cast<RankedTensorType>(getType());
  IndexedDims dims =
      dimsOf(getLoc(), getOperationName(), getDimensionNumbers());
  // dynamic_gather_c2, dynamic_gather_c8
  if (sizes.getRank() != 1 ||
      !sizesAgree(sizes.getDimSize(0), operand.getRank()))
    return emitOpError() << "needs " << operand.getRank()
                         << " entries of slice_sizes but got " << sizes;
  SmallVector<int64_t> batch = dims.batchSizes(indices);
  int64_t rank = dims.window.size() + batch.size();
  if (failed(dims.check(operand, indices, rank)))
    return failure();
  // dynamic_gather_c13, dynamic_gather_c14
  if (operand.getElementType() != result.getElementType())
    return emitOpError() << "needs one element type but got " << operand
                         << " and " << result;
  SmallVector<int64_t> shape(rank, ShapedType::kDynamic);
  for (auto [dim, next] = std::pair(0, batch.begin()); dim < rank; ++dim)
    if (!llvm::is_contained(dims.window, dim))
      shape[dim] = *next++;
  return checkResultShape(*this, shape, result);
}

/// Checks the updates' shape: sizes of the indices outside the window
/// dimensions, at most the input's sizes inside.
static LogicalResult checkUpdates(ScatterOp op, const IndexedDims &dims,
                                  RankedTensorType input,
                                  RankedTensorType indices,
                                  RankedTensorType updates) {
  SmallVector<int64_t> batch = dims.batchSizes(indices);
  if (failed(checkLength(op.getLoc(), op.getOperationName(),
                         "updates' dimensions",
                         batch.size() + dims.window.size(), updates.getRank())))
    return failure();
  SmallVector<int64_t> bounds;
  for (auto [dim, size] : llvm::enumerate(input.getShape()))
    if (!dims.isDropped(dim))
      bounds.push_back(size);
  auto nextBound = bounds.begin(), nextBatch = batch.begin();
  for (auto [dim, size] : llvm::enumerate(updates.getShape())) {
    bool inWindow = llvm::is_contained(dims.window, static_cast<int64_t>(dim));
    int64_t bound = inWindow ? *nextBound++ : *nextBatch++;
    if (inWindow ? ShapedType::isStatic(bound) && ShapedType::isStatic(size) &&
                       size > bound
                 : !sizesAgree(size, bound))
      return op.emitOpError()
             << "has updates " << updates << " whose dimension " << dim
             << " does not fit " << bound << " of the "
             << (inWindow ? "input " : "indices ")
             << (inWindow ? input : indices);
  }
  return success();
}

LogicalResult ScatterOp::verify() {
  // scatter_c5
  if (getInputs().empty())
    return emitOpError("needs at least one input");
  if (getNumResults() != getInputs().size())
    return emitOpError() << "needs one result per input but got "
                         << getNumResults() << " for " << getInputs().size();
  auto input = cast<RankedTensorType>(getInputs().front().getType());
  auto indices = cast<RankedTensorType>(getScatterIndices().getType());
  auto updates = cast<RankedTensorType>(getUpdates().front().getType());
  ScatterDimensionNumbersAttr numbers = getScatterDimensionNumbers();
  IndexedDims dims{getLoc(),
                   getOperationName(),
                   numbers.getUpdateWindowDims(),
                   numbers.getInsertedWindowDims(),
                   numbers.getInputBatchingDims(),
                   numbers.getScatterIndicesBatchingDims(),
                   numbers.getScatterDimsToOperandDims(),
                   numbers.getIndexVectorDim()};
  // scatter_c4
  if (failed(dims.check(input, indices, updates.getRank())) ||
      failed(checkUpdates(*this, dims, input, indices, updates)))
    return failure();
  SmallVector<Type> scalars;
  for (auto [in, update, type] : llvm::zip(
           getInputs().getTypes(), getUpdates().getTypes(), getResultTypes())) {
    // scatter_c1, scatter_c3, scatter_c6
    if (failed(verifyCompatibleShape(in, input)) ||
        failed(verifyCompatibleShape(update, updates)) ||
        getElementTypeOrSelf(in) != getElementTypeOrSelf(update))
      return emitOpError() << "has input " << in << " and update " << update
                           << " that do not fit " << input << " and "
                           << updates;
    // scatter_c24, scatter_c25
    auto result = cast<RankedTensorType>(type);
    if (failed(checkResultShape(*this, input.getShape(), result)) ||
        failed(checkPromotable(*this, in, result)))
      return failure();
    scalars.push_back(RankedTensorType::get({}, result.getElementType()));
  }
  // scatter_c23
  return checkReducer(*this, getUpdateComputation(), scalars);
}

//===----------------------------------------------------------------------===//
// TorchIndexSelectOp
//===----------------------------------------------------------------------===//

LogicalResult TorchIndexSelectOp::verify() {
  auto operand = cast<RankedTensorType>(getOperand().getType());
  auto index = cast<RankedTensorType>(getIndex().getType());
  int64_t dim = static_cast<int64_t>(getDim());
  int64_t batch = static_cast<int64_t>(getBatchDims());
  int64_t rank = operand.getRank(), ofIndex = index.getRank();
  // Negative numbers count from the end.
  if (dim < -rank || dim >= rank)
    return emitOpError() << "needs a dim from " << -rank << " to " << rank - 1
                         << " but got " << dim;
  if (batch < -ofIndex || batch > ofIndex)
    return emitOpError() << "needs batch_dims from " << -ofIndex << " to "
                         << ofIndex << " but got " << batch;
  dim += dim < 0 ? rank : 0;
  batch += batch < 0 ? ofIndex : 0;
  if (batch > dim)
    return emitOpError() << "needs batch_dims of at most dim " << dim
                         << " but got " << batch;
  SmallVector<int64_t> shape(operand.getShape().take_front(dim));
  llvm::append_range(shape, index.getShape().drop_front(batch));
  llvm::append_range(shape, operand.getShape().drop_front(dim + 1));
  auto result = cast<RankedTensorType>(getType());
  if (operand.getElementType() != result.getElementType())
    return emitOpError() << "needs one element type but got " << operand
                         << " and " << result;
  return checkResultShape(*this, shape, result);
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Indexing.cpp.inc"
