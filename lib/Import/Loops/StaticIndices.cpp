//===- StaticIndices.cpp - Fold constant indices --------------------------===//

#include "scalify/Import/StaticIndices.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/StageBorders.h"
#include "scalify/Import/Folds.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace scalify;

/// Size limit of folded constants: indices are small.
static constexpr int64_t kMaxElements = 1024;

/// Returns constant starts, clamped so that `sizes` stay within `shape`.
static std::optional<SmallVector<int64_t>>
getClampedStarts(ValueRange starts, ArrayRef<int64_t> shape,
                 ArrayRef<int64_t> sizes) {
  SmallVector<int64_t> result;
  for (auto [start, extent, size] : llvm::zip_equal(starts, shape, sizes)) {
    APInt value;
    if (!matchPattern(start, m_ConstantInt(&value)))
      return std::nullopt;
    int64_t at = stablehlo::clampedNumberOf(value, start.getType());
    result.push_back(std::clamp<int64_t>(at, 0, extent - size));
  }
  return result;
}

std::optional<SmallVector<int64_t>>
scalify::getStarts(stablehlo::DynamicUpdateSliceOp op) {
  return getClampedStarts(op.getStartIndices(),
                          typeOf(op.getOperand()).getShape(),
                          typeOf(op.getUpdate()).getShape());
}

//===----------------------------------------------------------------------===//
// Sources of a slice's elements
//===----------------------------------------------------------------------===//

namespace {
/// A box of a value's elements; `step` finds it in the value's definition.
struct Part {
  Value value;
  SmallVector<int64_t> starts, sizes;

  bool step();

private:
  bool stepInto(stablehlo::DynamicUpdateSliceOp op);
  bool stepInto(stablehlo::ConcatenateOp op);
  bool stepInto(stablehlo::SliceOp op);
  bool stepInto(stablehlo::ReshapeOp op);
};
} // namespace

// The box must be entirely inside or entirely outside the update.
bool Part::stepInto(stablehlo::DynamicUpdateSliceOp op) {
  std::optional<SmallVector<int64_t>> places = getStarts(op);
  if (!places)
    return false;
  bool isInside = true, isOutside = false;
  for (auto [start, size, place, extent] : llvm::zip_equal(
           starts, sizes, *places, typeOf(op.getUpdate()).getShape())) {
    isInside &= start >= place && start + size <= place + extent;
    isOutside |= start >= place + extent || start + size <= place;
  }
  if (isOutside) {
    value = op.getOperand();
    return true;
  }
  if (!isInside)
    return false;
  value = op.getUpdate();
  for (auto [start, place] : llvm::zip_equal(starts, *places))
    start -= place;
  return true;
}

bool Part::stepInto(stablehlo::ConcatenateOp op) {
  int64_t &start = starts[op.getDimension()];
  auto [piece, first] =
      import::findPiece(op, start, start + sizes[op.getDimension()]);
  if (!piece)
    return false;
  value = piece;
  start = first;
  return true;
}

bool Part::stepInto(stablehlo::SliceOp op) {
  if (!llvm::all_of(op.getStrides(), [](int64_t s) { return s == 1; }))
    return false;
  value = op.getOperand();
  for (auto [start, first] : llvm::zip_equal(starts, op.getStartIndices()))
    start += first;
  return true;
}

/// Contiguous elements are contiguous in both shapes, and may be a box in the
/// operand's: a row of a stack whose rows come in twos.
bool Part::stepInto(stablehlo::ReshapeOp op) {
  ArrayRef<int64_t> from = typeOf(op.getResult()).getShape();
  size_t whole = from.size(); // from this dimension on the box is full
  while (whole > 0 && sizes[whole - 1] == from[whole - 1])
    --whole;
  for (size_t dim = 0; dim + 1 < whole; ++dim)
    if (sizes[dim] != 1)
      return false;
  int64_t count = computeProduct(sizes);
  if (count == 0)
    return false;
  int64_t place = linearize(starts, computeStrides(from));
  ArrayRef<int64_t> to = typeOf(op.getOperand()).getShape();
  SmallVector<int64_t> places(to.size()), extents(to.size(), 1);
  for (auto [dim, stride] : llvm::enumerate(computeStrides(to))) {
    places[dim] = place / stride % to[dim];
    if (count >= stride)
      extents[dim] = std::min(count / stride, to[dim]);
    // Fail if the box wraps around into the next row.
    if (places[dim] + extents[dim] > to[dim] ||
        (extents[dim] > 1 && (place % stride != 0 || count % stride != 0)))
      return false;
  }
  if (computeProduct(extents) != count)
    return false;
  value = op.getOperand();
  starts = places;
  sizes = extents;
  return true;
}

bool Part::step() {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto update = dyn_cast<stablehlo::DynamicUpdateSliceOp>(op))
    return stepInto(update);
  if (auto joined = dyn_cast<stablehlo::ConcatenateOp>(op))
    return stepInto(joined);
  if (auto slice = dyn_cast<stablehlo::SliceOp>(op))
    return stepInto(slice);
  if (auto reshape = dyn_cast<stablehlo::ReshapeOp>(op))
    return stepInto(reshape);
  if (!stablehlo::isPlainBarrier(op))
    return false;
  value = op->getOperand(cast<OpResult>(value).getResultNumber());
  return true;
}

static void replaceBySlice(PatternRewriter &rewriter, Operation *op,
                           Value value, ArrayRef<int64_t> starts,
                           ArrayRef<int64_t> sizes) {
  SmallVector<int64_t> limits, strides(starts.size(), 1);
  for (auto [start, size] : llvm::zip_equal(starts, sizes))
    limits.push_back(start + size);
  RankedTensorType type = typeOf(op->getResult(0));
  Value slice =
      stablehlo::SliceOp::create(rewriter, op->getLoc(), type.clone(sizes),
                                 value, starts, limits, strides);
  if (slice.getType() != type)
    slice = stablehlo::ReshapeOp::create(rewriter, op->getLoc(), type, slice);
  rewriter.replaceOp(op, slice);
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// Folds a dynamic slice at constant indices.
static LogicalResult foldDynamicSlice(stablehlo::DynamicSliceOp op,
                                      PatternRewriter &rewriter) {
  std::optional<SmallVector<int64_t>> starts =
      getClampedStarts(op.getStartIndices(), typeOf(op.getOperand()).getShape(),
                       op.getSliceSizes());
  if (!starts)
    return rewriter.notifyMatchFailure(op, "an index is not constant");
  replaceBySlice(rewriter, op, op.getOperand(), *starts, op.getSliceSizes());
  return success();
}

/// Makes a slice read the value that its elements come from.
static LogicalResult forwardSlice(stablehlo::SliceOp op,
                                  PatternRewriter &rewriter) {
  if (!llvm::all_of(op.getStrides(), [](int64_t s) { return s == 1; }))
    return rewriter.notifyMatchFailure(op, "has strides");
  Part part{op.getOperand(), SmallVector<int64_t>(op.getStartIndices()),
            SmallVector<int64_t>(typeOf(op.getResult()).getShape())};
  bool isMoved = false;
  while (part.step())
    isMoved = true;
  if (!isMoved)
    return rewriter.notifyMatchFailure(op, "no known source");
  replaceBySlice(rewriter, op, part.value, part.starts, part.sizes);
  return success();
}

/// Folds a slice of one element of an iota.
static LogicalResult foldSliceOfIota(stablehlo::SliceOp op,
                                     PatternRewriter &rewriter) {
  auto iota = op.getOperand().getDefiningOp<stablehlo::IotaOp>();
  auto type = cast<ShapedType>(op.getType());
  auto element = dyn_cast<IntegerType>(type.getElementType());
  if (!iota || !element || type.getNumElements() != 1)
    return rewriter.notifyMatchFailure(op, "not one integer of an iota");
  int64_t at = op.getStartIndices()[iota.getIotaDimension()];
  APInt value(element.getWidth(), static_cast<uint64_t>(at),
              /*isSigned=*/false, /*implicitTrunc=*/true);
  rewriter.replaceOpWithNewOp<stablehlo::ConstantOp>(
      op, DenseElementsAttr::get(type, value));
  return success();
}

/// True if few elementwise ops compute the operand, counted once per use: a
/// random number takes thousands.
static bool isSmallTree(Operation *root) {
  constexpr size_t kMost = 16;
  SmallVector<Operation *> tree = {root};
  for (size_t i = 0; i < tree.size() && tree.size() <= kMost; ++i)
    for (Value operand : tree[i]->getOperands())
      if (Operation *op = operand.getDefiningOp(); op && isElementwiseOp(op))
        tree.push_back(op);
  return tree.size() <= kMost;
}

/// Slices the operands of an elementwise op on integers of which only one
/// element is used.
static LogicalResult sliceOperands(stablehlo::SliceOp op,
                                   PatternRewriter &rewriter) {
  Operation *inner = op.getOperand().getDefiningOp();
  auto type = cast<ShapedType>(op.getType());
  auto isIndex = [&](Value operand) {
    return typeOf(operand).getShape() == typeOf(op.getOperand()).getShape() &&
           isa<IntegerType>(typeOf(operand).getElementType());
  };
  if (!inner || !isElementwiseOp(inner) || type.getNumElements() != 1 ||
      !isIndex(op.getOperand()) || !llvm::all_of(inner->getOperands(), isIndex))
    return rewriter.notifyMatchFailure(op, "not one integer of integers");
  if (!isSmallTree(inner))
    return rewriter.notifyMatchFailure(op, "would duplicate many ops");
  SmallVector<Value> operands;
  for (Value operand : inner->getOperands())
    operands.push_back(stablehlo::SliceOp::create(
        rewriter, op.getLoc(), typeOf(operand).clone(type.getShape()), operand,
        op.getStartIndices(), op.getLimitIndices(), op.getStrides()));
  OperationState state(op.getLoc(), inner->getName(), operands, type,
                       inner->getAttrs());
  rewriter.replaceOp(op, rewriter.create(state));
  return success();
}

/// Replaces a broadcast that only adds dimensions of one element by a reshape,
/// which aliases its operand.
static LogicalResult foldBroadcastOfOnes(stablehlo::BroadcastInDimOp op,
                                         PatternRewriter &rewriter) {
  if (!import::addsOnes(op))
    return rewriter.notifyMatchFailure(op, "repeats or moves elements");
  rewriter.replaceOpWithNewOp<stablehlo::ReshapeOp>(op, op.getType(),
                                                    op.getOperand());
  return success();
}

//===----------------------------------------------------------------------===//
// The folder
//===----------------------------------------------------------------------===//

static FrozenRewritePatternSet makePatterns(MLIRContext *context) {
  RewritePatternSet patterns(context);
  import::FoldOptions options{kMaxElements, /*signedZeros=*/true};
  import::populateAlgebraFolds(patterns, options);
  import::populateConstantFolds(patterns, options);
  import::populateShapeFolds(patterns, options);
  patterns.add(foldBroadcastOfOnes)
      .add(foldDynamicSlice)
      .add(foldSliceOfIota)
      .add(forwardSlice)
      .add(sliceOperands);
  return std::move(patterns);
}

IndexFolder::IndexFolder(MLIRContext *context)
    : patterns(makePatterns(context)), applicator(patterns), rewriter(context) {
  applicator.applyDefaultCostModel();
  rewriter.setListener(this);
}

void IndexFolder::notifyOperationInserted(Operation *op,
                                          OpBuilder::InsertPoint) {
  inserted.push_back(op);
}

void IndexFolder::notifyOperationErased(Operation *op) {
  llvm::erase(inserted, op);
  llvm::erase(pending, op);
}

void IndexFolder::notifyOperationReplaced(Operation *op, ValueRange by) {
  for (Value &value : values)
    if (value.getDefiningOp() == op)
      value = by[cast<OpResult>(value).getResultNumber()];
}

SmallVector<Value> IndexFolder::fold(Operation *root) {
  values.assign(root->result_begin(), root->result_end());
  pending.assign(1, root);
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val();
    // Values that kernels must read from memory are not folded to literals.
    bool isInMemory = llvm::any_of(op->getOperands(), [](Value operand) {
      Operation *def = operand.getDefiningOp();
      return def && def->hasAttr(kInMemoryAttr);
    });
    if (isInMemory)
      continue;
    PhaseAttr phase = getPhaseAttr(op);
    inserted.clear();
    rewriter.setInsertionPoint(op);
    if (failed(applicator.matchAndRewrite(op, rewriter)))
      continue;
    // Fold operands first.
    for (Operation *made : llvm::reverse(inserted)) {
      if (phase && !made->hasAttr(kPhaseAttr))
        made->setAttr(kPhaseAttr, phase);
      pending.push_back(made);
    }
  }
  return values;
}
