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
  // Those of a shape or a window. A constant of one number may have any size.
  constexpr int64_t most = 1024;
  DenseElementsAttr constant = getConstant(value);
  if (!constant || !constant.getElementType().isIntOrIndex() ||
      constant.getNumElements() > most)
    return std::nullopt;
  return llvm::map_to_vector(
      constant.getValues<APInt>(), [&](const APInt &number) {
        return clampedNumberOf(number, constant.getElementType());
      });
}

/// Adds a rewrite of ops with operands and results of static shape. With
/// `ofAnyResult` the results' types may still be dynamic.
template <typename Op>
static void addStatic(RewritePatternSet &patterns, bool ofAnyResult,
                      LogicalResult (*rewrite)(Op, PatternRewriter &)) {
  using RewriteFn = LogicalResult (*)(Op, PatternRewriter &);
  struct Static : OpRewritePattern<Op> {
    Static(MLIRContext *context, bool ofAnyResult, RewriteFn rewrite)
        : OpRewritePattern<Op>(context), ofAnyResult(ofAnyResult),
          rewrite(rewrite) {}

    LogicalResult matchAndRewrite(Op op,
                                  PatternRewriter &rewriter) const override {
      if (!llvm::all_of(op->getOperandTypes(), isStatic) ||
          (!ofAnyResult && !llvm::all_of(op->getResultTypes(), isStatic)))
        return rewriter.notifyMatchFailure(op, "a shape is not static");
      return rewrite(op, rewriter);
    }

    bool ofAnyResult;
    RewriteFn rewrite;
  };
  patterns.add<Static>(patterns.getContext(), ofAnyResult, rewrite);
}

static LogicalResult foldDimensionSize(GetDimensionSizeOp op,
                                       PatternRewriter &rewriter) {
  int64_t size = typeOf(op.getOperand()).getDimSize(op.getDimension());
  rewriter.replaceOp(op, buildIndex(rewriter, op.getLoc(), size));
  return success();
}

static LogicalResult foldDynamicIota(DynamicIotaOp op,
                                     PatternRewriter &rewriter) {
  rewriter.replaceOpWithNewOp<IotaOp>(op, op.getType(), op.getIotaDimension());
  return success();
}

static LogicalResult foldDynamicReshape(DynamicReshapeOp op,
                                        PatternRewriter &rewriter) {
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getOperand());
  return success();
}

static LogicalResult foldDynamicBroadcast(DynamicBroadcastInDimOp op,
                                          PatternRewriter &rewriter) {
  rewriter.replaceOpWithNewOp<BroadcastInDimOp>(
      op, op.getType(), op.getOperand(), op.getBroadcastDimensions());
  return success();
}

static LogicalResult foldDynamicPad(DynamicPadOp op,
                                    PatternRewriter &rewriter) {
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

static LogicalResult foldDynamicSlice(RealDynamicSliceOp op,
                                      PatternRewriter &rewriter) {
  auto start = getNumbers(op.getStartIndices());
  auto limit = getNumbers(op.getLimitIndices());
  auto strides = getNumbers(op.getStrides());
  if (!start || !limit || !strides)
    return rewriter.notifyMatchFailure(op, "the bounds are no constants");
  rewriter.replaceOpWithNewOp<SliceOp>(op, op.getType(), op.getOperand(),
                                       *start, *limit, *strides);
  return success();
}

static LogicalResult foldDynamicGather(DynamicGatherOp op,
                                       PatternRewriter &rewriter) {
  auto sizes = getNumbers(op.getSliceSizes());
  if (!sizes)
    return rewriter.notifyMatchFailure(op, "the sizes are no constant");
  rewriter.replaceOpWithNewOp<GatherOp>(
      op, op.getType(), op.getOperand(), op.getStartIndices(),
      op.getDimensionNumbers(), *sizes, op.getIndicesAreSorted());
  return success();
}

static LogicalResult foldDynamicConvolution(DynamicConvOp op,
                                            PatternRewriter &rewriter) {
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

static LogicalResult foldMap(MapOp op, PatternRewriter &rewriter) {
  Block &body = op.getComputation().front();
  auto results = applyToElements(rewriter, op, body, op.getInputs());
  if (failed(results))
    return failure();
  rewriter.replaceOp(op, *results);
  return success();
}

/// Folds the real part of a real number, which is the number.
static OpFoldResult foldReal(RealOp op, const FoldOptions &) {
  return op.getType() == op.getOperand().getType() ? op.getOperand() : Value();
}

/// Folds the imaginary part of a real number, which is zero.
static LogicalResult foldImag(ImagOp op, PatternRewriter &rewriter) {
  if (op.getType() != op.getOperand().getType() || !isStatic(op.getType()))
    return rewriter.notifyMatchFailure(op, "of a complex number");
  rewriter.replaceOp(op, buildZeros(rewriter, op.getLoc(), op.getType()));
  return success();
}

static OpFoldResult foldTupleElement(GetTupleElementOp op,
                                     const FoldOptions &) {
  auto tuple = op.getOperand().getDefiningOp<TupleOp>();
  return tuple ? tuple.getVal()[op.getIndex()] : Value();
}

/// The folds whose result type follows from the static op.
static void addShapedFolds(RewritePatternSet &patterns, bool ofAnyResult) {
  addStatic(patterns, ofAnyResult, foldDimensionSize);
  addStatic(patterns, ofAnyResult, foldDynamicPad);
  addStatic(patterns, ofAnyResult, foldDynamicSlice);
  addStatic(patterns, ofAnyResult, foldDynamicGather);
  addStatic(patterns, ofAnyResult, foldDynamicConvolution);
}

void scalify::import::populateStaticFolds(RewritePatternSet &patterns,
                                          const FoldOptions &options) {
  addShapedFolds(patterns, /*ofAnyResult=*/false);
  addStatic(patterns, /*ofAnyResult=*/false, foldDynamicIota);
  addStatic(patterns, /*ofAnyResult=*/false, foldDynamicReshape);
  addStatic(patterns, /*ofAnyResult=*/false, foldDynamicBroadcast);
  addStatic(patterns, /*ofAnyResult=*/false, foldMap);
  addFold(patterns, options, foldReal);
  patterns.add(foldImag);
  addFold(patterns, options, foldTupleElement);
}

void scalify::import::populateStaticForms(RewritePatternSet &patterns) {
  addShapedFolds(patterns, /*ofAnyResult=*/true);
}
