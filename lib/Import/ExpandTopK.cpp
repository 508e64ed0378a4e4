//===- ExpandTopK.cpp - chlo.top_k by a sort ------------------------------===//
//
// The k largest of the last dimension are the first k of a stable descending
// sort, which carries the positions along. Floats are compared by total order:
// a NaN counts as larger than any number, as XLA has it.
//
//===----------------------------------------------------------------------===//

#include "ExpandTopK.h"

#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace scalify;

static stablehlo::ComparisonType getOrder(Type element) {
  if (isa<FloatType>(element))
    return stablehlo::ComparisonType::TOTALORDER;
  return element.isUnsignedInteger() || element.isInteger(1)
             ? stablehlo::ComparisonType::UNSIGNED
             : stablehlo::ComparisonType::SIGNED;
}

/// The comparator's block: whether the first value goes before the second.
static void buildDescending(ImplicitLocOpBuilder &b, Region &region,
                            TypeRange elements) {
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> scalars;
  for (Type element : elements)
    scalars.append(2, RankedTensorType::get({}, element));
  SmallVector<Location> locs(scalars.size(), b.getLoc());
  Block *block = b.createBlock(&region, {}, scalars, locs);
  Value before = stablehlo::CompareOp::create(
      b, block->getArgument(0), block->getArgument(1),
      stablehlo::ComparisonDirection::GT, getOrder(elements[0]));
  stablehlo::ReturnOp::create(b, before);
}

namespace {
struct ExpandTopK : OpRewritePattern<chlo::TopKOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(chlo::TopKOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getOperand().getType());
    if (!type.hasStaticShape() || type.getRank() == 0)
      return rewriter.notifyMatchFailure(op, "needs a static shape");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    int64_t last = type.getRank() - 1;
    auto indexType = cast<RankedTensorType>(op.getIndices().getType());
    auto placeType = type.clone(indexType.getElementType());
    Value places = stablehlo::IotaOp::create(b, placeType, last);
    auto sort = stablehlo::SortOp::create(b, TypeRange{type, placeType},
                                          ValueRange{op.getOperand(), places},
                                          last, /*is_stable=*/true);
    buildDescending(b, sort.getComparator(),
                    {type.getElementType(), placeType.getElementType()});
    SmallVector<int64_t> start(type.getRank(), 0), stride(type.getRank(), 1);
    SmallVector<int64_t> limit(type.getShape());
    limit[last] = op.getK();
    SmallVector<Value> results;
    for (auto [sorted, result] : llvm::zip(sort.getResults(), op->getResults()))
      results.push_back(stablehlo::SliceOp::create(b, result.getType(), sorted,
                                                   start, limit, stride));
    rewriter.replaceOp(op, results);
    return success();
  }
};
} // namespace

void scalify::import::populateTopKExpansion(RewritePatternSet &patterns) {
  patterns.add<ExpandTopK>(patterns.getContext());
}
