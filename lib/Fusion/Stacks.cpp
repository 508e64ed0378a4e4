//===- Stacks.cpp - Memory layout of stacks -------------------------------===//

#include "Stacks.h"

#include "scalify/Dialect/Plan/Plan.h"

using namespace mlir;
using namespace scalify;

/// The alignment of the runtime's buffers, in bytes; pieces need it too.
static constexpr int64_t kAlignment = 64;
/// The number of pieces that one kernel concatenates if they cannot be written
/// in place: it reads each of them for every element.
static constexpr size_t kJoined = 8;

static bool liesInOrder(RankedTensorType whole, ArrayRef<Value> pieces,
                        int64_t dim) {
  int64_t offset = 0;
  for (int64_t extent : whole.getShape().take_front(dim))
    if (extent != 1)
      return false;
  for (Value piece : pieces) {
    if (offset % kAlignment != 0)
      return false;
    offset += cast<RankedTensorType>(piece.getType()).getNumElements() *
              plan::elementBytes(whole.getElementType());
  }
  return true;
}

static Value concatenate(OpBuilder &b, Location loc, RankedTensorType whole,
                         ArrayRef<Value> pieces, int64_t dim) {
  SmallVector<int64_t> shape(whole.getShape());
  shape[dim] = 0;
  for (Value piece : pieces)
    shape[dim] += cast<RankedTensorType>(piece.getType()).getDimSize(dim);
  return stablehlo::ConcatenateOp::create(b, loc, whole.clone(shape), pieces,
                                          dim);
}

Value scalify::stackPieces(OpBuilder &b, Location loc, RankedTensorType whole,
                           ArrayRef<Value> pieces, int64_t dim) {
  SmallVector<Value> parts(pieces);
  bool isStack = liesInOrder(whole, parts, dim);
  while (!isStack && parts.size() > kJoined) {
    SmallVector<Value> joined;
    for (size_t i = 0; i < parts.size(); i += kJoined) {
      ArrayRef<Value> some = ArrayRef(parts).slice(i).take_front(kJoined);
      joined.push_back(concatenate(b, loc, whole, some, dim));
      joined.back().getDefiningOp()->setAttr("plan.materialise",
                                             b.getUnitAttr());
    }
    parts = joined;
  }
  Value joined = concatenate(b, loc, whole, parts, dim);
  if (isStack)
    joined.getDefiningOp()->setAttr(kStackAttr, b.getUnitAttr());
  return joined;
}
