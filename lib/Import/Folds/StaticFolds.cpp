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

#include "mlir/IR/Verifier.h"
#include "llvm/Support/Threading.h"

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

//===----------------------------------------------------------------------===//
// Dynamic ops
//===----------------------------------------------------------------------===//

/// Creates the static op of an op's result type, which is in no block yet.
template <typename Static, typename... Args>
static Operation *make(OpBuilder &b, Operation *op, Args &&...args) {
  OperationState state(op->getLoc(), Static::getOperationName());
  Static::build(b, state, op->getResult(0).getType(),
                std::forward<Args>(args)...);
  return Operation::create(state);
}

/// Null if numbers that the static op needs are no constants.
static Operation *makeStatic(DynamicIotaOp op, OpBuilder &b) {
  return make<IotaOp>(b, op, op.getIotaDimension());
}

static Operation *makeStatic(DynamicReshapeOp op, OpBuilder &b) {
  return make<ReshapeOp>(b, op, op.getOperand());
}

static Operation *makeStatic(DynamicBroadcastInDimOp op, OpBuilder &b) {
  return make<BroadcastInDimOp>(b, op, op.getOperand(),
                                op.getBroadcastDimensions());
}

static Operation *makeStatic(DynamicPadOp op, OpBuilder &b) {
  auto low = getNumbers(op.getEdgePaddingLow());
  auto high = getNumbers(op.getEdgePaddingHigh());
  auto interior = getNumbers(op.getInteriorPadding());
  if (!low || !high || !interior)
    return nullptr;
  return make<PadOp>(b, op, op.getOperand(), op.getPaddingValue(), *low, *high,
                     *interior);
}

static Operation *makeStatic(RealDynamicSliceOp op, OpBuilder &b) {
  auto start = getNumbers(op.getStartIndices());
  auto limit = getNumbers(op.getLimitIndices());
  auto strides = getNumbers(op.getStrides());
  if (!start || !limit || !strides)
    return nullptr;
  return make<SliceOp>(b, op, op.getOperand(), *start, *limit, *strides);
}

static Operation *makeStatic(DynamicGatherOp op, OpBuilder &b) {
  auto sizes = getNumbers(op.getSliceSizes());
  if (!sizes)
    return nullptr;
  return make<GatherOp>(b, op, op.getOperand(), op.getStartIndices(),
                        op.getDimensionNumbers(), *sizes,
                        op.getIndicesAreSorted());
}

static Operation *makeStatic(DynamicConvOp op, OpBuilder &b) {
  auto padding = getNumbers(op.getDPadding());
  if (!padding)
    return nullptr;
  auto type = typeOf(op.getDPadding()).clone(b.getI64Type());
  OperationState state(op.getLoc(), ConvolutionOp::getOperationName());
  state.addOperands({op.getLhs(), op.getRhs()});
  state.addTypes(op.getType());
  state.addAttributes(op->getAttrs());
  state.attributes.set(
      "padding", DenseElementsAttr::get(type, ArrayRef<int64_t>(*padding)));
  return Operation::create(state);
}

/// True if the op verifies. Its errors are not shown: the dynamic op stays, and
/// a later stage names it.
static bool verifies(Operation *op) {
  uint64_t thread = llvm::get_threadid();
  ScopedDiagnosticHandler quiet(op->getContext(), [&](Diagnostic &) {
    return success(llvm::get_threadid() == thread);
  });
  return succeeded(verify(op));
}

namespace {
/// Replaces an op of static operands by its static form. The verifier of the
/// dynamic one compares no numbers with types, so the static op is verified,
/// but for results of dynamic type (`ofAnyResult`), whose caller does it.
template <typename Op> struct MakeStatic : OpRewritePattern<Op> {
  MakeStatic(MLIRContext *context, bool ofAnyResult)
      : OpRewritePattern<Op>(context), ofAnyResult(ofAnyResult) {}

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!llvm::all_of(op->getOperandTypes(), isStatic) ||
        (!ofAnyResult && !isStatic(op.getType())))
      return rewriter.notifyMatchFailure(op, "a shape is not static");
    Operation *made = makeStatic(op, rewriter);
    if (!made)
      return rewriter.notifyMatchFailure(op, "the sizes are no constants");
    if (!ofAnyResult && !verifies(made)) {
      made->destroy();
      return rewriter.notifyMatchFailure(op, "the sizes do not fit the types");
    }
    rewriter.insert(made);
    rewriter.replaceOp(op, made->getResults());
    return success();
  }

  bool ofAnyResult;
};
} // namespace

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
  patterns.add<MakeStatic<DynamicPadOp>, MakeStatic<RealDynamicSliceOp>,
               MakeStatic<DynamicGatherOp>, MakeStatic<DynamicConvOp>>(
      patterns.getContext(), ofAnyResult);
}

void scalify::import::populateStaticFolds(RewritePatternSet &patterns,
                                          const FoldOptions &options) {
  addShapedFolds(patterns, /*ofAnyResult=*/false);
  patterns.add<MakeStatic<DynamicIotaOp>, MakeStatic<DynamicReshapeOp>,
               MakeStatic<DynamicBroadcastInDimOp>>(patterns.getContext(),
                                                    /*ofAnyResult=*/false);
  addStatic(patterns, /*ofAnyResult=*/false, foldMap);
  addFold(patterns, options, foldReal);
  patterns.add(foldImag);
  addFold(patterns, options, foldTupleElement);
}

void scalify::import::populateStaticForms(RewritePatternSet &patterns) {
  addShapedFolds(patterns, /*ofAnyResult=*/true);
}
