//===- SharePlaces.cpp - Positions of a share's elements ------------------===//

#include "SharePlaces.h"

#include "scalify/Dialect/StableHLO/DeviceTables.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Returns the sizes after the first, on which the strides depend.
static ArrayRef<int64_t> rowOf(ArrayRef<int64_t> shape) {
  return shape.drop_front(shape.empty() ? 0 : 1);
}

static int64_t strideOf(ArrayRef<int64_t> shape, size_t dim) {
  return llvm::product_of(shape.drop_front(dim + 1));
}

std::optional<SharePlaces> SharePlaces::find(AllGatherOp gather,
                                             QuantizeOp cast) {
  if (cast.getFirst() || cast.getWhole())
    return std::nullopt;
  Value value = cast.getValue();
  SharePlaces places = {0, llvm::to_vector(shapeOf(value))};
  while (value != gather->getResult(0)) {
    Operation *move = value.getDefiningOp();
    Value from = move->getOperand(0);
    if (auto slice = dyn_cast<SliceOp>(move)) {
      if (!llvm::all_of(slice.getStrides(),
                        [](int64_t stride) { return stride == 1; }))
        return std::nullopt;
      // Slicing off the padding of a stack's slices keeps the positions of the
      // other elements; those of the padding are never read.
      bool isPaddingSlice =
          from == gather->getResult(0) &&
          llvm::all_of(slice.getStartIndices(),
                       [](int64_t start) { return start == 0; });
      if (isPaddingSlice)
        return places;
      if (rowOf(shapeOf(from)) != rowOf(shapeOf(value)))
        return std::nullopt;
      if (!places.whole.empty())
        places.first -= slice.getStartIndices()[0] * strideOf(places.whole, 0);
    } else if (!isa<ReshapeOp>(move)) {
      return std::nullopt;
    }
    places.whole.assign(shapeOf(from).begin(), shapeOf(from).end());
    value = from;
  }
  return places;
}

void SharePlaces::set(QuantizeOp cast, AllGatherOp gather) const {
  size_t dim = gather.getAllGatherDim();
  ArrayRef<int64_t> share = shapeOf(cast.getValue());
  int64_t step = share[dim] * strideOf(whole, dim);
  DenseIntElementsAttr groups = gather.getReplicaGroups();
  auto size = groups.getType().getDimSize(1);
  SmallVector<int32_t> firsts;
  for (auto [place, id] : llvm::enumerate(groups.getValues<int64_t>())) {
    if (id < 0) // pads a short group
      continue;
    firsts.resize(std::max<size_t>(firsts.size(), id + 1));
    auto member = static_cast<int64_t>(place) % size;
    // Modulo 2^32, as positions are.
    firsts[id] = static_cast<int32_t>(first + member * step);
  }
  OpBuilder builder(cast);
  cast.getFirstMutable().assign(lookUp(builder, cast.getLoc(), firsts,
                                       static_cast<int64_t>(firsts.size())));
  if (rowOf(share) != rowOf(whole))
    cast.setWhole(whole);
}
