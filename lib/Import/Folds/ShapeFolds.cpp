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

/// Returns the operand's index for an index of the result.
static Index getSource(stablehlo::BroadcastInDimOp op,
                       ArrayRef<int64_t> index) {
  Index source;
  ArrayRef<int64_t> shape =
      cast<ShapedType>(op.getOperand().getType()).getShape();
  for (auto [size, dim] : llvm::zip_equal(shape, op.getBroadcastDimensions()))
    source.push_back(size == 1 ? 0 : index[dim]);
  return source;
}

static Index getSource(stablehlo::TransposeOp op, ArrayRef<int64_t> index) {
  Index source(index.size());
  for (auto [at, dim] : llvm::zip_equal(index, op.getPermutation()))
    source[dim] = at;
  return source;
}

static Index getSource(stablehlo::SliceOp op, ArrayRef<int64_t> index) {
  Index source;
  for (auto [at, start, stride] :
       llvm::zip_equal(index, op.getStartIndices(), op.getStrides()))
    source.push_back(start + at * stride);
  return source;
}

static Index getSource(stablehlo::ReverseOp op, ArrayRef<int64_t> index) {
  Index source(index);
  ArrayRef<int64_t> shape = op.getType().getShape();
  for (int64_t dim : op.getDimensions())
    source[dim] = shape[dim] - 1 - index[dim];
  return source;
}

/// Folds moves of constants: splats are resized, small tensors are moved
/// element by element, larger ones stay.
template <typename Op>
static OpFoldResult foldMove(Op op, const FoldOptions &options) {
  DenseElementsAttr source = getConstant(op.getOperand());
  auto type = cast<ShapedType>(op.getResult().getType());
  if (!source || !type.hasStaticShape())
    return {};
  if (source.isSplat())
    return source.resizeSplat(type);
  if (type.getNumElements() > getMaxElements(type, options.maxElements))
    return {};
  return moveElements(source, type, [&](ArrayRef<int64_t> index) {
    return getSource(op, index);
  });
}

/// Folds reshapes of constants of any size, since the element order stays.
static OpFoldResult foldReshapeOfConstant(stablehlo::ReshapeOp op,
                                          const FoldOptions &) {
  DenseElementsAttr source = getConstant(op.getOperand());
  return source ? source.reshape(op.getType()) : DenseElementsAttr();
}

//===----------------------------------------------------------------------===//
// Identity moves, and two moves in a row
//===----------------------------------------------------------------------===//

static LogicalResult foldBroadcast(stablehlo::BroadcastInDimOp op,
                                   PatternRewriter &rewriter) {
  ArrayRef<int64_t> dims = op.getBroadcastDimensions();
  if (op.getOperand().getType() == op.getType() && llvm::is_sorted(dims)) {
    rewriter.replaceOp(op, op.getOperand());
    return success();
  }
  auto inner = op.getOperand().getDefiningOp<stablehlo::BroadcastInDimOp>();
  if (!inner)
    return rewriter.notifyMatchFailure(op, "the operand is no broadcast");
  auto composed = llvm::map_to_vector(inner.getBroadcastDimensions(),
                                      [&](int64_t dim) { return dims[dim]; });
  rewriter.replaceOpWithNewOp<stablehlo::BroadcastInDimOp>(
      op, op.getType(), inner.getOperand(), composed);
  return success();
}

static LogicalResult foldReshape(stablehlo::ReshapeOp op,
                                 PatternRewriter &rewriter) {
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

static LogicalResult foldTranspose(stablehlo::TransposeOp op,
                                   PatternRewriter &rewriter) {
  ArrayRef<int64_t> permutation = op.getPermutation();
  if (isIdentityPermutation(permutation)) {
    rewriter.replaceOp(op, op.getOperand());
    return success();
  }
  auto inner = op.getOperand().getDefiningOp<stablehlo::TransposeOp>();
  if (!inner)
    return rewriter.notifyMatchFailure(op, "the operand is no transpose");
  rewriter.replaceOpWithNewOp<stablehlo::TransposeOp>(
      op, op.getType(), inner.getOperand(),
      applyPermutation(inner.getPermutation(), permutation));
  return success();
}

/// Folds full slices, empty paddings and concatenations of one operand. These
/// keep the type; of ops that keep it, only pads with interior or negative
/// padding are no identity.
template <typename Op>
static OpFoldResult foldIdentity(Op op, const FoldOptions &) {
  Value operand = op->getOperand(0);
  if (operand.getType() != op.getResult().getType())
    return {};
  if constexpr (std::is_same_v<Op, stablehlo::PadOp>)
    for (ArrayRef<int64_t> paddings :
         {op.getEdgePaddingLow(), op.getInteriorPadding()})
      if (!llvm::all_of(paddings, [](int64_t count) { return count == 0; }))
        return {};
  if constexpr (std::is_same_v<Op, stablehlo::ConcatenateOp>)
    if (op.getInputs().size() != 1)
      return {};
  return operand;
}

/// Folds small concatenations of constants, as those of the sizes of a shape.
static OpFoldResult foldConcatenateOfConstants(stablehlo::ConcatenateOp op,
                                               const FoldOptions &options) {
  auto type = cast<ShapedType>(op.getType());
  if (!type.hasStaticShape() ||
      type.getNumElements() > getMaxElements(type, options.maxElements))
    return {};
  SmallVector<int64_t> outer = computeStrides(type.getShape());
  SmallVector<Attribute> elements(type.getNumElements());
  int64_t begin = 0;
  for (Value piece : op.getInputs()) {
    DenseElementsAttr source = getConstant(piece);
    if (!source)
      return {};
    ArrayRef<int64_t> shape = source.getType().getShape();
    SmallVector<int64_t> inner = computeStrides(shape);
    for (auto [i, element] : llvm::enumerate(source.getValues<Attribute>())) {
      Index index = delinearize(i, inner);
      index[op.getDimension()] += begin;
      elements[linearize(index, outer)] = element;
    }
    begin += shape[op.getDimension()];
  }
  return DenseElementsAttr::get(type, elements);
}

/// Folds a slice within one operand of a concatenation, as JAX reads values
/// saved in an unrolled scan.
static LogicalResult foldSliceOfConcatenate(stablehlo::SliceOp op,
                                            PatternRewriter &rewriter) {
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

/// Folds a splat padded with its own value.
static OpFoldResult foldPadOfSplat(stablehlo::PadOp op, const FoldOptions &) {
  DenseElementsAttr source = getConstant(op.getOperand());
  DenseElementsAttr value = getConstant(op.getPaddingValue());
  if (!source || !value || !source.isSplat() || !value.isSplat() ||
      source.getSplatValue<Attribute>() != value.getSplatValue<Attribute>())
    return {};
  return value.resizeSplat(op.getType());
}

void scalify::import::populateShapeFolds(RewritePatternSet &patterns,
                                         const FoldOptions &options) {
  addFold(patterns, options, foldConcatenateOfConstants);
  addFold(patterns, options, foldMove<stablehlo::BroadcastInDimOp>);
  addFold(patterns, options, foldMove<stablehlo::ReverseOp>);
  addFold(patterns, options, foldMove<stablehlo::SliceOp>);
  addFold(patterns, options, foldMove<stablehlo::TransposeOp>);
  patterns.add(foldBroadcast);
  addFold(patterns, options, foldIdentity<stablehlo::ConcatenateOp>);
  addFold(patterns, options, foldIdentity<stablehlo::PadOp>);
  addFold(patterns, options, foldIdentity<stablehlo::SliceOp>);
  addFold(patterns, options, foldPadOfSplat);
  patterns.add(foldReshape).add(foldSliceOfConcatenate);
  addFold(patterns, options, foldReshapeOfConstant);
  patterns.add(foldTranspose);
}
