//===- BlockSizes.cpp - Block sizes of a dot's operand --------------------===//

#include "BlockSizes.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Precision/DotLayers.h"

using namespace mlir;
using namespace scalify;

/// Sets the size along the minor-most of `dims`; size 0 spans all of them.
static void setSize(MutableArrayRef<int64_t> sizes, ArrayRef<int64_t> dims,
                    int64_t size) {
  if (dims.empty())
    return;
  if (size != 0)
    sizes[*llvm::max_element(dims)] = size;
  else
    for (int64_t dim : dims)
      sizes[dim] = 0;
}

DenseI64ArrayAttr scalify::getBlockSizes(Operation *dot, unsigned operand,
                                         Value value, RecipeAttr recipe) {
  auto general = dyn_cast<stablehlo::DotGeneralOp>(dot);
  if (recipe.getScales() != ScaleSource::Block || !general)
    return {};
  auto dims = general.getDotDimensionNumbers();
  ArrayRef<int64_t> batch = operand == 0 ? dims.getLhsBatchingDimensions()
                                         : dims.getRhsBatchingDimensions();
  ArrayRef<int64_t> contracting = operand == 0
                                      ? dims.getLhsContractingDimensions()
                                      : dims.getRhsContractingDimensions();
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  SmallVector<int64_t> free;
  for (int64_t dim : llvm::seq<int64_t>(0, rank))
    if (!llvm::is_contained(batch, dim) &&
        !llvm::is_contained(contracting, dim))
      free.push_back(dim);
  BlockSizes blocks = recipe.getBlocks();
  auto [across, along] = getWeight(value) ? blocks.weights : blocks.data;
  SmallVector<int64_t> sizes(rank, 1);
  setSize(sizes, free, across);
  setSize(sizes, contracting, along);
  return DenseI64ArrayAttr::get(dot->getContext(), sizes);
}
