//===- ExpandSorts.cpp - Sorts as counts of what goes before --------------===//
//
// The place of an element is the number of elements that go before it. Counting
// them compares each two, which is n * n small ops in one kernel: for the
// experts of a router, or a batch, less than the kernels of a sorting network.
//
//===----------------------------------------------------------------------===//

#include "TensorBuilder.h"
#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDSORTS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

// Comparisons of more are worth a remark: a second of a core, roughly.
static constexpr int64_t kManyComparisons = int64_t(1) << 30;

/// Reads along `dim` at places that differ from row to row.
static Value takeAlong(TensorBuilder &b, Value value, Value places,
                       int64_t dim) {
  int64_t rank = typeOf(value).getRank();
  SmallVector<int64_t> shape(typeOf(value).getShape()), rows;
  for (int64_t d = 0; d < rank; ++d)
    if (d != dim)
      rows.push_back(d);
  shape.push_back(1);
  auto numbers = stablehlo::GatherDimensionNumbersAttr::get(
      value.getContext(), /*offsetDims=*/{}, /*collapsedSliceDims=*/{dim},
      /*operandBatchingDims=*/rows, /*startIndicesBatchingDims=*/rows,
      /*startIndexMap=*/{dim}, /*indexVectorDim=*/rank);
  return stablehlo::GatherOp::create(b.ops, value.getType(), value,
                                     b.reshape(places, shape), numbers,
                                     SmallVector<int64_t>(rank, 1));
}

static LogicalResult expand(stablehlo::SortOp op) {
  TensorBuilder b(op);
  RankedTensorType type = typeOf(op.getInputs().front());
  int64_t rank = type.getRank();
  auto dim = static_cast<int64_t>(op.getDimension());
  dim = dim < 0 ? dim + rank : dim;
  int64_t count = type.getDimSize(dim);
  if (type.getNumElements() * count > kManyComparisons)
    op.emitRemark() << "sorts " << count << " elements by comparing each two: "
                    << type.getNumElements() * count << " comparisons";
  // Rows of all pairs: an element along `dim`, the other one along the last.
  SmallVector<int64_t> pairs(type.getShape()), self, other;
  pairs.push_back(count);
  for (int64_t d = 0; d < rank; ++d) {
    self.push_back(d);
    other.push_back(d == dim ? rank : d);
  }
  SmallVector<Value> otherFirst, selfFirst;
  for (Value input : op.getInputs()) {
    Value mine = b.broadcast(input, pairs, self);
    Value theirs = b.broadcast(input, pairs, other);
    otherFirst.append({theirs, mine});
    selfFirst.append({mine, theirs});
  }
  auto before = b.elementwise(op, op.getComparator(), otherFirst);
  auto after = b.elementwise(op, op.getComparator(), selfFirst);
  if (failed(before) || failed(after))
    return failure();
  using stablehlo::ComparisonDirection;
  Value otherPlace = b.iota(rank, pairs), place = b.iota(dim, pairs);
  // Equal ones keep their order, so that no two have one place.
  Value isEarlier = b.compare(otherPlace, place, ComparisonDirection::LT);
  Value isNotAfter = b.make<stablehlo::NotOp>({(*after)[0]});
  Value isTie = b.make<stablehlo::AndOp>({isNotAfter, isEarlier});
  Value goesBefore = b.make<stablehlo::OrOp>({(*before)[0], isTie});
  Value target = b.sum(b.convert(goesBefore, b.ops.getI32Type()), {rank});
  // Which element has a place: of all of them, the one whose place it is.
  Value isThere = b.compare(b.broadcast(target, pairs, other), place,
                            ComparisonDirection::EQ);
  Value none = b.constant(0, b.ops.getI32Type(), pairs);
  Value source =
      b.sum(b.make<stablehlo::SelectOp>({isThere, otherPlace, none}), {rank});
  for (auto [input, result] : llvm::zip(op.getInputs(), op.getResults()))
    result.replaceAllUsesWith(takeAlong(b, input, source, dim));
  op.erase();
  return success();
}

namespace {
class ExpandSortsPass : public scalify::impl::ExpandSortsBase<ExpandSortsPass> {
public:
  void runOnOperation() override {
    SmallVector<stablehlo::SortOp> sorts;
    getOperation().walk([&](stablehlo::SortOp op) {
      if (llvm::all_of(op->getOperandTypes(), [](Type type) {
            auto tensor = dyn_cast<RankedTensorType>(type);
            return tensor && tensor.hasStaticShape();
          }))
        sorts.push_back(op);
    });
    for (stablehlo::SortOp op : sorts)
      if (failed(expand(op)))
        return signalPassFailure();
    numExpanded += sorts.size();
  }
};
} // namespace
