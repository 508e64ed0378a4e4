//===- PadFolds.cpp - Sums of padded tensors that share no element --------===//
//
// The gradient of x[a:b] is a zero-padded tensor, and JAX adds such gradients
// for split, rotate-half and strided slices. The sum only moves elements, so it
// is a concatenation:
//   add(pad(x, high = n), pad(y, low = m))           -> concatenate(x, y)
//   add(pad(x, interior = 1), pad(y, interior = 1))  -> x and y interleaved
// x + 0 is x except for x = -0 (see --scalify-canonicalize-stablehlo).
//
//===----------------------------------------------------------------------===//

#include "scalify/Import/Folds.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

namespace {

/// The padding of one dimension.
struct Extent {
  int64_t low, size, high, interior;

  int64_t end() const { return low + size; }
};

} // namespace

static Extent getExtent(stablehlo::PadOp pad, int64_t dim) {
  return {pad.getEdgePaddingLow()[dim],
          cast<ShapedType>(pad.getOperand().getType()).getDimSize(dim),
          pad.getEdgePaddingHigh()[dim], pad.getInteriorPadding()[dim]};
}

static bool isPlain(const Extent &extent) {
  return extent.low == 0 && extent.high == 0 && extent.interior == 0;
}

/// Returns the only dimension in which either pad adds elements, or -1.
static int64_t getPaddedDim(stablehlo::PadOp lhs, stablehlo::PadOp rhs) {
  int64_t found = -1;
  for (int64_t dim = 0, e = lhs.getType().getRank(); dim < e; ++dim) {
    if (isPlain(getExtent(lhs, dim)) && isPlain(getExtent(rhs, dim)))
      continue;
    if (found >= 0)
      return -1;
    found = dim;
  }
  return found;
}

/// Concatenates two adjacent operands, and pads the result.
static Value joinAdjacent(PatternRewriter &rewriter, Location loc,
                          stablehlo::PadOp first, stablehlo::PadOp second,
                          int64_t dim) {
  Extent a = getExtent(first, dim), b = getExtent(second, dim);
  Value joined = stablehlo::ConcatenateOp::create(
      rewriter, loc, ValueRange{first.getOperand(), second.getOperand()}, dim);
  if (a.low == 0 && b.high == 0)
    return joined;
  SmallVector<int64_t> low(first.getType().getRank(), 0), high(low), zero(low);
  low[dim] = a.low;
  high[dim] = b.high;
  return stablehlo::PadOp::create(rewriter, loc, joined,
                                  first.getPaddingValue(), low, high, zero);
}

/// Interleaves two operands, `even` first.
static Value interleave(PatternRewriter &rewriter, Location loc,
                        stablehlo::PadOp even, stablehlo::PadOp odd,
                        int64_t dim) {
  auto operandType = cast<RankedTensorType>(even.getOperand().getType());
  SmallVector<int64_t> shape(operandType.getShape());
  shape.insert(shape.begin() + dim + 1, 1);
  auto wide = RankedTensorType::get(shape, operandType.getElementType());
  auto widen = [&](stablehlo::PadOp pad) -> Value {
    return stablehlo::ReshapeOp::create(rewriter, loc, wide, pad.getOperand());
  };
  Value pairs = stablehlo::ConcatenateOp::create(
      rewriter, loc, ValueRange{widen(even), widen(odd)}, dim + 1);
  return stablehlo::ReshapeOp::create(rewriter, loc, even.getType(), pairs);
}

namespace {

struct JoinPads : OpRewritePattern<stablehlo::AddOp> {
  JoinPads(MLIRContext *context, bool signedZeros)
      : OpRewritePattern(context), signedZeros(signedZeros) {}

  bool isNeutral(stablehlo::PadOp pad) const {
    Value value = pad.getPaddingValue();
    return isZero(value) && (!signedZeros || isNegativeZero(value) ||
                             !isa<FloatType>(getElementTypeOrSelf(value)));
  }

  LogicalResult matchAndRewrite(stablehlo::AddOp op,
                                PatternRewriter &rewriter) const override {
    auto lhs = op.getLhs().getDefiningOp<stablehlo::PadOp>();
    auto rhs = op.getRhs().getDefiningOp<stablehlo::PadOp>();
    if (!lhs || !rhs || !lhs->hasOneUse() || !rhs->hasOneUse())
      return rewriter.notifyMatchFailure(op, "not a sum of two pads");
    if (!isNeutral(lhs) || !isNeutral(rhs))
      return rewriter.notifyMatchFailure(op, "the padding is not zero");
    int64_t dim = getPaddedDim(lhs, rhs);
    if (dim < 0)
      return rewriter.notifyMatchFailure(op, "not padded in one dimension");

    Extent a = getExtent(lhs, dim), b = getExtent(rhs, dim);
    if (b.low < a.low) {
      std::swap(lhs, rhs);
      std::swap(a, b);
    }
    if (a.low < 0 || b.high < 0)
      return rewriter.notifyMatchFailure(op, "the padding removes elements");
    if (a.interior == 0 && b.interior == 0 && a.end() == b.low) {
      rewriter.replaceOp(op,
                         joinAdjacent(rewriter, op.getLoc(), lhs, rhs, dim));
      return success();
    }
    bool alternate = a.interior == 1 && b.interior == 1 && a.size == b.size &&
                     a.low == 0 && a.high == 1 && b.low == 1 && b.high == 0;
    if (!alternate)
      return rewriter.notifyMatchFailure(op, "the operands do not line up");
    rewriter.replaceOp(op, interleave(rewriter, op.getLoc(), lhs, rhs, dim));
    return success();
  }

  bool signedZeros;
};

} // namespace

void scalify::import::populatePadFolds(RewritePatternSet &patterns,
                                       const FoldOptions &options) {
  patterns.add<JoinPads>(patterns.getContext(), options.signedZeros);
}
