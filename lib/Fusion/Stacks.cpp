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

Value scalify::stackPieces(OpBuilder &b, Location loc, RankedTensorType whole,
                           ArrayRef<Value> pieces, int64_t dim) {
  SmallVector<Value> parts(pieces);
  bool isStack = liesInOrder(whole, parts, dim);
  while (!isStack && parts.size() > kJoined) {
    SmallVector<Value> joined;
    for (size_t i = 0; i < parts.size(); i += kJoined) {
      ArrayRef<Value> some = ArrayRef(parts).slice(i).take_front(kJoined);
      joined.push_back(stablehlo::ConcatenateOp::create(b, loc, some, dim));
      joined.back().getDefiningOp()->setAttr(plan::kMaterialiseAttr,
                                             b.getUnitAttr());
    }
    parts = joined;
  }
  Value joined = stablehlo::ConcatenateOp::create(b, loc, parts, dim);
  if (isStack)
    joined.getDefiningOp()->setAttr(plan::kStackAttr, b.getUnitAttr());
  return joined;
}
