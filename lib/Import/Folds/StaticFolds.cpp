//===- StaticFolds.cpp - Ops whose static form is known -------------------===//
//
// An op on shapes known at run time is the static op once its shape operands
// are constants and its result has a static type. A map is its body on whole
// tensors. A tuple is its elements.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/StableHLO/ElementRegions.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Import/Folds.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;
using namespace scalify::stablehlo;

static bool isStatic(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape();
}

std::optional<SmallVector<int64_t>> scalify::import::getNumbers(Value value) {
  DenseElementsAttr constant = getConstant(value);
  if (!constant || !constant.getElementType().isIntOrIndex())
    return std::nullopt;
  return llvm::map_to_vector(
      constant.getValues<APInt>(), [&](const APInt &number) {
        return clampedNumberOf(number, constant.getElementType());
      });
}

namespace {
/// A pattern on ops with operands and results of static shape. With
/// `ofAnyResult` the results' types may still be dynamic.
template <typename Op> struct StaticPattern : OpRewritePattern<Op> {
  explicit StaticPattern(MLIRContext *context, bool ofAnyResult = false)
      : OpRewritePattern<Op>(context), ofAnyResult(ofAnyResult) {}

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!llvm::all_of(op->getOperandTypes(), isStatic) ||
        (!ofAnyResult && !llvm::all_of(op->getResultTypes(), isStatic)))
      return rewriter.notifyMatchFailure(op, "a shape is not static");
    return rewrite(op, rewriter);
  }
  virtual LogicalResult rewrite(Op op, PatternRewriter &rewriter) const = 0;

  bool ofAnyResult;
};

struct FoldDimensionSize : StaticPattern<GetDimensionSizeOp> {
  using StaticPattern::StaticPattern;

  LogicalResult rewrite(GetDimensionSizeOp op,
                        PatternRewriter &rewriter) const override {
    int64_t size = typeOf(op.getOperand()).getDimSize(op.getDimension());
    rewriter.replaceOp(op, buildIndex(rewriter, op.getLoc(), size));
    return success();
  }
};

struct FoldDynamicIota : StaticPattern<DynamicIotaOp> {
  using StaticPattern::StaticPattern;

  LogicalResult rewrite(DynamicIotaOp op,
                        PatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<IotaOp>(op, op.getType(),
                                        op.getIotaDimension());
    return success();
  }
};

struct FoldDynamicReshape : StaticPattern<DynamicReshapeOp> {
  using StaticPattern::StaticPattern;

  LogicalResult rewrite(DynamicReshapeOp op,
                        PatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getOperand());
    return success();
  }
};

struct FoldDynamicBroadcast : StaticPattern<DynamicBroadcastInDimOp> {
  using StaticPattern::StaticPattern;

  LogicalResult rewrite(DynamicBroadcastInDimOp op,
                        PatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<BroadcastInDimOp>(
        op, op.getType(), op.getOperand(), op.getBroadcastDimensions());
    return success();
  }
};

struct FoldDynamicPad : StaticPattern<DynamicPadOp> {
  using StaticPattern::StaticPattern;

  LogicalResult rewrite(DynamicPadOp op,
                        PatternRewriter &rewriter) const override {
    auto low = getNumbers(op.getEdgePaddingLow());
    auto high = getNumbers(op.getEdgePaddingHigh());
    auto interior = getNumbers(op.getInteriorPadding());
    if (!low || !high || !interior)
      return rewriter.notifyMatchFailure(op, "the padding is no constant");
    rewriter.replaceOpWithNewOp<PadOp>(op, op.getType(), op.getOperand(),
                                       op.getPaddingValue(), *low, *high,
                                       *interior);
    return success();
  }
};

struct FoldDynamicSlice : StaticPattern<RealDynamicSliceOp> {
  using StaticPattern::StaticPattern;

  LogicalResult rewrite(RealDynamicSliceOp op,
                        PatternRewriter &rewriter) const override {
    auto start = getNumbers(op.getStartIndices());
    auto limit = getNumbers(op.getLimitIndices());
    auto strides = getNumbers(op.getStrides());
    if (!start || !limit || !strides)
      return rewriter.notifyMatchFailure(op, "the bounds are no constants");
    rewriter.replaceOpWithNewOp<SliceOp>(op, op.getType(), op.getOperand(),
                                         *start, *limit, *strides);
    return success();
  }
};

struct FoldDynamicGather : StaticPattern<DynamicGatherOp> {
  using StaticPattern::StaticPattern;

  LogicalResult rewrite(DynamicGatherOp op,
                        PatternRewriter &rewriter) const override {
    auto sizes = getNumbers(op.getSliceSizes());
    if (!sizes)
      return rewriter.notifyMatchFailure(op, "the sizes are no constant");
    rewriter.replaceOpWithNewOp<GatherOp>(
        op, op.getType(), op.getOperand(), op.getStartIndices(),
        op.getDimensionNumbers(), *sizes, op.getIndicesAreSorted());
    return success();
  }
};

struct FoldDynamicConvolution : StaticPattern<DynamicConvOp> {
  using StaticPattern::StaticPattern;

  LogicalResult rewrite(DynamicConvOp op,
                        PatternRewriter &rewriter) const override {
    DenseElementsAttr constant = getConstant(op.getDPadding());
    auto padding = getNumbers(op.getDPadding());
    if (!padding)
      return rewriter.notifyMatchFailure(op, "the padding is no constant");
    auto type = constant.getType().clone(rewriter.getI64Type());
    OperationState state(op.getLoc(), ConvolutionOp::getOperationName());
    state.addOperands({op.getLhs(), op.getRhs()});
    state.addTypes(op.getType());
    state.addAttributes(op->getAttrs());
    state.attributes.set("padding",
                         DenseElementsAttr::get(cast<ShapedType>(type),
                                                ArrayRef<int64_t>(*padding)));
    rewriter.replaceOp(op, rewriter.create(state));
    return success();
  }
};

struct FoldMap : StaticPattern<MapOp> {
  using StaticPattern::StaticPattern;

  LogicalResult rewrite(MapOp op, PatternRewriter &rewriter) const override {
    Block &body = op.getComputation().front();
    auto results = applyToElements(rewriter, op, body, op.getInputs());
    if (failed(results))
      return failure();
    rewriter.replaceOp(op, *results);
    return success();
  }
};

/// Folds the real part of a real number, which is the number.
struct FoldReal : OpRewritePattern<RealOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RealOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getType() != op.getOperand().getType())
      return rewriter.notifyMatchFailure(op, "of a complex number");
    rewriter.replaceOp(op, op.getOperand());
    return success();
  }
};

/// Folds the imaginary part of a real number, which is zero.
struct FoldImag : OpRewritePattern<ImagOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ImagOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getType() != op.getOperand().getType() || !isStatic(op.getType()))
      return rewriter.notifyMatchFailure(op, "of a complex number");
    rewriter.replaceOp(op, buildZeros(rewriter, op.getLoc(), op.getType()));
    return success();
  }
};

struct FoldTupleElement : OpRewritePattern<GetTupleElementOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GetTupleElementOp op,
                                PatternRewriter &rewriter) const override {
    auto tuple = op.getOperand().getDefiningOp<TupleOp>();
    if (!tuple)
      return rewriter.notifyMatchFailure(op, "the tuple is not built here");
    rewriter.replaceOp(op, tuple.getVal()[op.getIndex()]);
    return success();
  }
};
} // namespace

void scalify::import::populateStaticFolds(RewritePatternSet &patterns,
                                          const FoldOptions &options) {
  patterns.add<FoldDimensionSize, FoldDynamicIota, FoldDynamicReshape,
               FoldDynamicBroadcast, FoldDynamicPad, FoldDynamicSlice,
               FoldDynamicGather, FoldDynamicConvolution, FoldMap, FoldReal,
               FoldImag, FoldTupleElement>(patterns.getContext());
}

void scalify::import::populateStaticForms(RewritePatternSet &patterns) {
  patterns.add<FoldDimensionSize, FoldDynamicPad, FoldDynamicSlice,
               FoldDynamicGather, FoldDynamicConvolution>(patterns.getContext(),
                                                          /*ofAnyResult=*/true);
}
