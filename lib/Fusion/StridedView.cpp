//===- StridedView.cpp - Values as strided views of others ----------------===//

#include "StridedView.h"

#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

using namespace mlir;
using namespace scalify;

StridedView StridedView::identity(Value value) {
  StridedView view;
  view.base = value;
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  view.dims.resize(shape.size());
  int64_t stride = 1;
  for (int64_t i = shape.size() - 1; i >= 0; --i) {
    view.dims[i] = {shape[i], stride};
    stride *= shape[i];
  }
  return view;
}

std::optional<Dim> scalify::collapse(ArrayRef<Dim> dims) {
  Dim result{1, 1};
  bool isFirst = true;
  for (Dim dim : llvm::reverse(dims)) {
    if (dim.size == 1)
      continue;
    if (isFirst) {
      result = dim;
      isFirst = false;
      continue;
    }
    if (dim.stride != result.stride * result.size)
      return std::nullopt;
    result.size *= dim.size;
  }
  return result;
}

std::optional<SmallVector<Dim>> scalify::reshapeDims(ArrayRef<Dim> dims,
                                                     ArrayRef<int64_t> shape) {
  SmallVector<Dim> source, result;
  for (Dim dim : dims)
    if (dim.size != 1)
      source.push_back(dim);
  size_t next = 0;
  for (size_t i = 0; i < shape.size();) {
    if (shape[i] == 1) {
      result.push_back({1, 1});
      ++i;
      continue;
    }
    // The shortest groups of both sides with the same number of elements.
    if (next == source.size())
      return std::nullopt;
    size_t sourceEnd = next + 1, targetEnd = i + 1;
    int64_t have = source[next].size, want = shape[i];
    while (have != want) {
      if (have < want) {
        if (sourceEnd == source.size())
          return std::nullopt;
        have *= source[sourceEnd++].size;
      } else {
        if (targetEnd == shape.size())
          return std::nullopt;
        want *= shape[targetEnd++];
      }
    }
    std::optional<Dim> whole =
        collapse(ArrayRef(source).slice(next, sourceEnd - next));
    if (!whole)
      return std::nullopt;
    int64_t stride = whole->stride * whole->size;
    for (size_t j = i; j < targetEnd; ++j) {
      stride /= shape[j];
      result.push_back({shape[j], stride});
    }
    next = sourceEnd;
    i = targetEnd;
  }
  return result;
}

StridedView StridedView::of(Value value) {
  Operation *op = value.getDefiningOp();
  // A materialised copy has a layout of its own.
  if (op && op->hasAttr(plan::kMaterialiseAttr))
    return identity(value);
  if (auto transpose = dyn_cast_or_null<stablehlo::TransposeOp>(op)) {
    StridedView source = of(transpose.getOperand());
    StridedView view = source;
    for (auto [i, d] : llvm::enumerate(transpose.getPermutation()))
      view.dims[i] = source.dims[d];
    return view;
  }
  if (auto reshape = dyn_cast_or_null<stablehlo::ReshapeOp>(op)) {
    StridedView view = of(reshape.getOperand());
    auto dims = reshapeDims(view.dims,
                            cast<RankedTensorType>(value.getType()).getShape());
    if (!dims)
      return identity(value);
    view.dims = *dims;
    return view;
  }
  if (auto slice = dyn_cast_or_null<stablehlo::SliceOp>(op)) {
    StridedView view = of(slice.getOperand());
    for (auto [i, dim] : llvm::enumerate(view.dims)) {
      view.offset += slice.getStartIndices()[i] * dim.stride;
      dim.stride *= slice.getStrides()[i];
      dim.size = cast<RankedTensorType>(value.getType()).getDimSize(i);
    }
    return view;
  }
  return identity(value);
}
