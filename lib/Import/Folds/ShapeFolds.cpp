//===- ShapeFolds.cpp - Folds on ops that move elements -------------------===//
//
// Two moves in a row are one move, and a move of a constant is a constant.
// Constants that are no splat are only created up to a size limit: a mask
// computed from an iota must not become megabytes of literal.
//
//===----------------------------------------------------------------------===//

#include "scalify/Import/Folds.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

using Index = SmallVector<int64_t>;

bool scalify::import::addsOnes(Operation *op) {
  auto broadcast = dyn_cast_or_null<stablehlo::BroadcastInDimOp>(op);
  return broadcast &&
         cast<ShapedType>(broadcast.getOperand().getType()).getNumElements() ==
             cast<ShapedType>(broadcast.getType()).getNumElements() &&
         llvm::is_sorted(broadcast.getBroadcastDimensions());
}

std::pair<Value, int64_t>
scalify::import::findPiece(stablehlo::ConcatenateOp op, int64_t begin,
                           int64_t end) {
  for (Value piece : op.getInputs()) {
    int64_t extent =
        cast<ShapedType>(piece.getType()).getDimSize(op.getDimension());
    if (begin >= 0 && end <= extent)
      return {piece, begin};
    begin -= extent;
    end -= extent;
  }
  return {Value(), 0};
}

//===----------------------------------------------------------------------===//
// Moves of constants
//===----------------------------------------------------------------------===//

/// Returns the constant of type `type` whose element at an index is the element
/// of `source` at the index given by `getSource`.
static DenseElementsAttr
moveElements(DenseElementsAttr source, ShapedType type,
             function_ref<Index(ArrayRef<int64_t>)> getSource) {
  SmallVector<Attribute, 0> from(source.getValues<Attribute>());
  SmallVector<Attribute, 0> to;
  SmallVector<int64_t> strides = computeStrides(source.getType().getShape());
  SmallVector<int64_t> outer = computeStrides(type.getShape());
  for (int64_t i = 0, e = type.getNumElements(); i < e; ++i)
    to.push_back(from[linearize(getSource(delinearize(i, outer)), strides)]);
  return DenseElementsAttr::get(type, to);
}

namespace {

/// Folds moves of constants: splats are resized, small tensors are moved
/// element by element, larger ones stay.
template <typename Op> struct FoldMove : OpRewritePattern<Op> {
  FoldMove(MLIRContext *context, int64_t maxElements)
      : OpRewritePattern<Op>(context), maxElements(maxElements) {}

  /// Returns the operand's index for the result's `index`.
  static Index getSource(Op op, ArrayRef<int64_t> index);

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    DenseElementsAttr source = getConstant(op.getOperand());
    auto type = cast<ShapedType>(op.getResult().getType());
    if (!source || !type.hasStaticShape())
      return rewriter.notifyMatchFailure(op, "the operand is no constant");
    DenseElementsAttr result;
    if (source.isSplat())
      result = source.resizeSplat(type);
    else if (type.getNumElements() <= getMaxElements(type, maxElements))
      result = moveElements(source, type, [&](ArrayRef<int64_t> index) {
        return getSource(op, index);
      });
    else
      return rewriter.notifyMatchFailure(op, "the constant would be too large");
    rewriter.replaceOpWithNewOp<stablehlo::ConstantOp>(op, result);
    return success();
  }

  int64_t maxElements;
};

template <>
Index FoldMove<stablehlo::BroadcastInDimOp>::getSource(
    stablehlo::BroadcastInDimOp op, ArrayRef<int64_t> index) {
  Index source;
  ArrayRef<int64_t> shape =
      cast<ShapedType>(op.getOperand().getType()).getShape();
  for (auto [size, dim] : llvm::zip_equal(shape, op.getBroadcastDimensions()))
    source.push_back(size == 1 ? 0 : index[dim]);
  return source;
}

template <>
Index FoldMove<stablehlo::TransposeOp>::getSource(stablehlo::TransposeOp op,
                                                  ArrayRef<int64_t> index) {
  Index source(index.size());
  for (auto [at, dim] : llvm::zip_equal(index, op.getPermutation()))
    source[dim] = at;
  return source;
}

template <>
Index FoldMove<stablehlo::SliceOp>::getSource(stablehlo::SliceOp op,
                                              ArrayRef<int64_t> index) {
  Index source;
  for (auto [at, start, stride] :
       llvm::zip_equal(index, op.getStartIndices(), op.getStrides()))
    source.push_back(start + at * stride);
  return source;
}

template <>
Index FoldMove<stablehlo::ReverseOp>::getSource(stablehlo::ReverseOp op,
                                                ArrayRef<int64_t> index) {
  Index source(index);
  ArrayRef<int64_t> shape = op.getType().getShape();
  for (int64_t dim : op.getDimensions())
    source[dim] = shape[dim] - 1 - index[dim];
  return source;
}

/// Folds reshapes of constants of any size, since the element order stays.
struct FoldReshapeOfConstant : OpRewritePattern<stablehlo::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(stablehlo::ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    DenseElementsAttr source = getConstant(op.getOperand());
    if (!source)
      return rewriter.notifyMatchFailure(op, "the operand is no constant");
    rewriter.replaceOpWithNewOp<stablehlo::ConstantOp>(
        op, source.reshape(op.getType()));
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Identity moves, and two moves in a row
//===----------------------------------------------------------------------===//

struct FoldBroadcast : OpRewritePattern<stablehlo::BroadcastInDimOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(stablehlo::BroadcastInDimOp op,
                                PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> dims = op.getBroadcastDimensions();
    if (op.getOperand().getType() == op.getType() && llvm::is_sorted(dims)) {
      rewriter.replaceOp(op, op.getOperand());
      return success();
    }
    auto inner = op.getOperand().getDefiningOp<stablehlo::BroadcastInDimOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "the operand is no broadcast");
    Index composed;
    for (int64_t dim : inner.getBroadcastDimensions())
      composed.push_back(dims[dim]);
    rewriter.replaceOpWithNewOp<stablehlo::BroadcastInDimOp>(
        op, op.getType(), inner.getOperand(), composed);
    return success();
  }
};

struct FoldReshape : OpRewritePattern<stablehlo::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(stablehlo::ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getOperand().getType() == op.getType()) {
      rewriter.replaceOp(op, op.getOperand());
      return success();
    }
    Operation *inner = op.getOperand().getDefiningOp();
    if (!isa_and_present<stablehlo::ReshapeOp>(inner) && !addsOnes(inner))
      return rewriter.notifyMatchFailure(op, "the operand is no reshape");
    rewriter.replaceOpWithNewOp<stablehlo::ReshapeOp>(op, op.getType(),
                                                      inner->getOperand(0));
    return success();
  }
};

struct FoldTranspose : OpRewritePattern<stablehlo::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(stablehlo::TransposeOp op,
                                PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> permutation = op.getPermutation();
    if (llvm::is_sorted(permutation)) {
      rewriter.replaceOp(op, op.getOperand());
      return success();
    }
    auto inner = op.getOperand().getDefiningOp<stablehlo::TransposeOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "the operand is no transpose");
    Index composed;
    for (int64_t dim : permutation)
      composed.push_back(inner.getPermutation()[dim]);
    rewriter.replaceOpWithNewOp<stablehlo::TransposeOp>(
        op, op.getType(), inner.getOperand(), composed);
    return success();
  }
};

/// Folds full slices, empty paddings and concatenations of one operand. These
/// keep the type; of ops that keep it, only pads with interior or negative
/// padding are no identity.
template <typename Op> struct FoldIdentity : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    Value operand = op->getOperand(0);
    if (operand.getType() != op.getResult().getType())
      return rewriter.notifyMatchFailure(op, "the type changes");
    if constexpr (std::is_same_v<Op, stablehlo::PadOp>)
      for (ArrayRef<int64_t> paddings :
           {op.getEdgePaddingLow(), op.getInteriorPadding()})
        if (!llvm::all_of(paddings, [](int64_t count) { return count == 0; }))
          return rewriter.notifyMatchFailure(op, "elements are moved");
    if constexpr (std::is_same_v<Op, stablehlo::ConcatenateOp>)
      if (op.getInputs().size() != 1)
        return rewriter.notifyMatchFailure(op, "there are more operands");
    rewriter.replaceOp(op, operand);
    return success();
  }
};

/// Folds small concatenations of constants, as those of the sizes of a shape.
struct FoldConcatenateOfConstants : OpRewritePattern<stablehlo::ConcatenateOp> {
  FoldConcatenateOfConstants(MLIRContext *context, int64_t maxElements)
      : OpRewritePattern(context), maxElements(maxElements) {}

  LogicalResult matchAndRewrite(stablehlo::ConcatenateOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<ShapedType>(op.getType());
    if (!type.hasStaticShape() ||
        type.getNumElements() > getMaxElements(type, maxElements))
      return rewriter.notifyMatchFailure(op, "the constant would be too large");
    SmallVector<int64_t> outer = computeStrides(type.getShape());
    SmallVector<Attribute> elements(type.getNumElements());
    int64_t begin = 0;
    for (Value piece : op.getInputs()) {
      DenseElementsAttr source = getConstant(piece);
      if (!source)
        return rewriter.notifyMatchFailure(op, "an operand is no constant");
      ArrayRef<int64_t> shape = source.getType().getShape();
      SmallVector<int64_t> inner = computeStrides(shape);
      for (auto [i, element] : llvm::enumerate(source.getValues<Attribute>())) {
        Index index = delinearize(i, inner);
        index[op.getDimension()] += begin;
        elements[linearize(index, outer)] = element;
      }
      begin += shape[op.getDimension()];
    }
    rewriter.replaceOpWithNewOp<stablehlo::ConstantOp>(
        op, DenseElementsAttr::get(type, elements));
    return success();
  }

  int64_t maxElements;
};

/// Folds a slice within one operand of a concatenation, as JAX reads values
/// saved in an unrolled scan.
struct FoldSliceOfConcatenate : OpRewritePattern<stablehlo::SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(stablehlo::SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto whole = op.getOperand().getDefiningOp<stablehlo::ConcatenateOp>();
    if (!whole)
      return rewriter.notifyMatchFailure(op, "the operand is no concatenation");
    Index starts(op.getStartIndices()), limits(op.getLimitIndices());
    auto dim = whole.getDimension();
    auto [piece, first] = findPiece(whole, starts[dim], limits[dim]);
    if (!piece)
      return rewriter.notifyMatchFailure(op, "reads several operands");
    limits[dim] += first - starts[dim];
    starts[dim] = first;
    rewriter.replaceOpWithNewOp<stablehlo::SliceOp>(
        op, op.getType(), piece, starts, limits, op.getStrides());
    return success();
  }
};

/// Folds a splat padded with its own value.
struct FoldPadOfSplat : OpRewritePattern<stablehlo::PadOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(stablehlo::PadOp op,
                                PatternRewriter &rewriter) const override {
    DenseElementsAttr source = getConstant(op.getOperand());
    DenseElementsAttr value = getConstant(op.getPaddingValue());
    if (!source || !value || !source.isSplat() || !value.isSplat() ||
        source.getSplatValue<Attribute>() != value.getSplatValue<Attribute>())
      return rewriter.notifyMatchFailure(op, "not one constant value");
    rewriter.replaceOpWithNewOp<stablehlo::ConstantOp>(
        op, value.resizeSplat(op.getType()));
    return success();
  }
};

} // namespace

void scalify::import::populateShapeFolds(RewritePatternSet &patterns,
                                         const FoldOptions &options) {
  MLIRContext *context = patterns.getContext();
  patterns
      .add<FoldConcatenateOfConstants, FoldMove<stablehlo::BroadcastInDimOp>,
           FoldMove<stablehlo::ReverseOp>, FoldMove<stablehlo::SliceOp>,
           FoldMove<stablehlo::TransposeOp>>(context, options.maxElements);
  patterns.add<FoldBroadcast, FoldIdentity<stablehlo::ConcatenateOp>,
               FoldIdentity<stablehlo::PadOp>, FoldIdentity<stablehlo::SliceOp>,
               FoldPadOfSplat, FoldReshape, FoldSliceOfConcatenate,
               FoldReshapeOfConstant, FoldTranspose>(context);
}
