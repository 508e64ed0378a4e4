//===- FormGemms.cpp - Dots as strided GEMMs ------------------------------===//
//
// A BLAS reads a matrix if one of its two strides is 1. Every dot is brought to
// that form by giving both operands and the result the strided views that the
// transposes around the dot describe. Free dimensions that do not collapse into
// one become batch dimensions with stride 0 in the other operand.
//
//===----------------------------------------------------------------------===//

#include "ScaleEntries.h"
#include "ScaleGrids.h"
#include "StridedView.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_FORMGEMMS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// Bytes that a copy moves per element: it reads and writes an F32.
static constexpr double kBytesOfCopy = 8;

namespace {
/// One way to run a dot.
struct Gemm {
  const TargetInfo *target;
  StridedView a, b;
  Dim am, ak, bk, bn, cm, cn;
  SmallVector<int64_t> batch, batchStrides;

  double time() const {
    double products = 1, most = 1;
    for (int64_t extent : batch) {
      products *= extent;
      most = std::max(most, double(extent));
    }
    double calls = target->callsTakeBatch ? products / most : products;
    return calls * target->call +
           products * 2.0 * cm.size * cn.size * ak.size / target->flops.bits16;
  }
};

/// Roles of the dimensions of a dot, in the order of its result.
struct Roles {
  SmallVector<int64_t> lhsBatch, rhsBatch, lhsFree, rhsFree, lhsSum, rhsSum;

  explicit Roles(stablehlo::DotGeneralOp op) {
    auto numbers = op.getDotDimensionNumbers();
    auto copy = [](ArrayRef<int64_t> dims) {
      return SmallVector<int64_t>(dims);
    };
    lhsBatch = copy(numbers.getLhsBatchingDimensions());
    rhsBatch = copy(numbers.getRhsBatchingDimensions());
    lhsSum = copy(numbers.getLhsContractingDimensions());
    rhsSum = copy(numbers.getRhsContractingDimensions());
    auto rest = [](Value value, ArrayRef<int64_t> x, ArrayRef<int64_t> y) {
      SmallVector<int64_t> free;
      for (int64_t d = 0; d < typeOf(value).getRank(); ++d)
        if (!llvm::is_contained(x, d) && !llvm::is_contained(y, d))
          free.push_back(d);
      return free;
    };
    lhsFree = rest(op.getLhs(), lhsBatch, lhsSum);
    rhsFree = rest(op.getRhs(), rhsBatch, rhsSum);
  }
};

struct FormGemmsPass : scalify::impl::FormGemmsBase<FormGemmsPass> {
  void runOnOperation() override;

private:
  void form(stablehlo::DotGeneralOp op);
  Gemm matchPlain(stablehlo::DotGeneralOp op, const Roles &roles,
                  const StridedView &a, const StridedView &b);
  StridedView copied(stablehlo::DotGeneralOp op, const Roles &roles,
                     bool isLhs);
  Value copyForLayout(stablehlo::DotGeneralOp op, bool isLhs);
  double foldAlpha(stablehlo::DotGeneralOp op);
  const TargetInfo &target() { return TargetAttr::of(getOperation()); }
};
} // namespace

static SmallVector<Dim> pick(ArrayRef<Dim> dims, ArrayRef<int64_t> which) {
  SmallVector<Dim> result;
  for (int64_t d : which)
    result.push_back(dims[d]);
  return result;
}

namespace {
/// Free dimensions of one operand: a run of them is a side of the matrix, the
/// others are batch dimensions in which the other operand has stride 0.
struct FreeDims {
  SmallVector<Dim> source, target; // in the operand, in the result
  size_t begin = 0, end = 0;       // the run

  std::optional<Dim> from() const {
    return collapse(ArrayRef(source).slice(begin, end - begin));
  }
  std::optional<Dim> to() const {
    return collapse(ArrayRef(target).slice(begin, end - begin));
  }
};
} // namespace

// Returns the maximal runs of free dimensions that collapse into one dimension
// in both the operand and the result.
static SmallVector<FreeDims> runsOf(ArrayRef<Dim> source,
                                    ArrayRef<Dim> target) {
  FreeDims free;
  for (auto [s, t] : llvm::zip(source, target)) {
    if (s.size == 1)
      continue;
    free.source.push_back(s);
    free.target.push_back(t);
  }
  SmallVector<FreeDims> runs;
  while (free.begin < free.source.size()) {
    free.end = free.begin + 1;
    while (free.end < free.source.size()) {
      ++free.end;
      if (free.from() && free.to())
        continue;
      --free.end;
      break;
    }
    runs.push_back(free);
    free.begin = free.end;
  }
  if (runs.empty())
    runs.push_back(free);
  return runs;
}

static void addBatches(const FreeDims &free, bool isLhs, Gemm &gemm) {
  for (size_t i = 0; i < free.source.size(); ++i) {
    if (i >= free.begin && i < free.end)
      continue;
    int64_t still = 0, moves = free.source[i].stride;
    gemm.batch.push_back(free.source[i].size);
    gemm.batchStrides.append(
        {isLhs ? moves : still, isLhs ? still : moves, free.target[i].stride});
  }
}

static bool isMatrix(Dim row, Dim column) {
  return row.stride == 1 || column.stride == 1 || row.size == 1 ||
         column.size == 1;
}

// Returns the fastest GEMM for the dot, if there is one. `c` holds the strides
// of the result's dimensions in memory.
static std::optional<Gemm> match(const TargetInfo &target, const Roles &roles,
                                 StridedView a, StridedView b,
                                 ArrayRef<Dim> c) {
  Gemm gemm;
  gemm.target = &target;
  gemm.a = a;
  gemm.b = b;
  size_t batches = roles.lhsBatch.size(), frees = roles.lhsFree.size();
  for (size_t i = 0; i < batches; ++i) {
    Dim x = a.dims[roles.lhsBatch[i]], y = b.dims[roles.rhsBatch[i]];
    if (x.size == 1)
      continue;
    gemm.batch.push_back(x.size);
    gemm.batchStrides.append({x.stride, y.stride, c[i].stride});
  }
  auto ak = collapse(pick(a.dims, roles.lhsSum));
  auto bk = collapse(pick(b.dims, roles.rhsSum));
  if (!ak || !bk)
    return std::nullopt;
  gemm.ak = *ak;
  gemm.bk = *bk;
  std::optional<Gemm> best;
  for (const FreeDims &lhs :
       runsOf(pick(a.dims, roles.lhsFree), c.slice(batches, frees)))
    for (const FreeDims &rhs :
         runsOf(pick(b.dims, roles.rhsFree), c.drop_front(batches + frees))) {
      Gemm next = gemm;
      next.am = *lhs.from();
      next.cm = *lhs.to();
      next.bn = *rhs.from();
      next.cn = *rhs.to();
      addBatches(lhs, true, next);
      addBatches(rhs, false, next);
      if (isMatrix(next.am, next.ak) && isMatrix(next.bk, next.bn) &&
          isMatrix(next.cm, next.cn) && (!best || next.time() < best->time()))
        best = next;
    }
  return best;
}

// A dimension of size 1 has no stride; give it one that a BLAS accepts.
static void fixUnit(Dim &row, Dim &column) {
  if (row.stride == 1 && column.stride == 1 && row.size != 1 &&
      column.size != 1)
    return;
  if (column.size == 1 && row.size == 1) {
    row.stride = column.stride = 1;
  } else if (column.size == 1) {
    if (row.stride == 1)
      column.stride = row.size;
    else
      column.stride = 1;
  } else if (row.size == 1) {
    if (column.stride == 1)
      row.stride = column.size;
    else
      row.stride = 1;
  }
}

static std::optional<double> splatNumber(Value value) {
  if (auto broadcast = value.getDefiningOp<stablehlo::BroadcastInDimOp>())
    value = broadcast.getOperand();
  auto constant = value.getDefiningOp<stablehlo::ConstantOp>();
  auto splat = constant && !constant->hasAttr(kInMemoryAttr)
                   ? dyn_cast<SplatElementsAttr>(constant.getValue())
                   : nullptr;
  if (!splat || !splat.getElementType().isF32())
    return std::nullopt;
  return splat.getSplatValue<APFloat>().convertToFloat();
}

// Folds multiplies of the result by constants into alpha, as long as the result
// has no other user and alpha, an F32, is normal: not infinite, and not zero,
// for which a library returns zeros whatever the operands are.
double FormGemmsPass::foldAlpha(stablehlo::DotGeneralOp op) {
  double alpha = 1.0;
  while (op.getResult().hasOneUse()) {
    Operation *user = *op.getResult().user_begin();
    std::optional<double> factor;
    if (auto mul = dyn_cast<stablehlo::MulOp>(user)) {
      bool isLhs = mul.getLhs() == op.getResult();
      factor = splatNumber(isLhs ? mul.getRhs() : mul.getLhs());
    } else if (auto div = dyn_cast<stablehlo::DivOp>(user)) {
      if (div.getLhs() == op.getResult())
        factor = splatNumber(div.getRhs());
      // Only where the reciprocal is exact: a power of two.
      int exponent;
      if (factor && std::abs(std::frexp(*factor, &exponent)) == 0.5)
        factor = 1.0 / *factor;
      else
        factor = std::nullopt;
    }
    if (!factor || !std::isnormal(static_cast<float>(alpha * *factor)))
      break;
    alpha *= *factor;
    user->getResult(0).replaceAllUsesWith(op.getResult());
    user->erase();
    ++numAlphas;
  }
  return alpha;
}

/// Returns an operand's dimensions as (batch, free, contracting), a layout that
/// a GEMM always reads.
static SmallVector<int64_t> getPlainOrder(const Roles &roles, bool isLhs) {
  SmallVector<int64_t> order(isLhs ? roles.lhsBatch : roles.rhsBatch);
  llvm::append_range(order, isLhs ? roles.lhsFree : roles.rhsFree);
  llvm::append_range(order, isLhs ? roles.lhsSum : roles.rhsSum);
  return order;
}

/// Copies the operand in that order.
Value FormGemmsPass::copyForLayout(stablehlo::DotGeneralOp op, bool isLhs) {
  OpBuilder b(op);
  Value copy = stablehlo::TransposeOp::create(b, op.getLoc(),
                                              isLhs ? op.getLhs() : op.getRhs(),
                                              getPlainOrder(Roles(op), isLhs));
  // `copied` permutes the view of the copy back to the dot's order.
  copy.getDefiningOp()->setAttr(plan::kMaterialiseAttr, b.getUnitAttr());
  ++numCopies;
  op.emitRemark("operand ")
      << (isLhs ? 0 : 1) << " is copied: no GEMM reads its layout";
  return copy;
}

/// Returns the dot's result and the chain of transposes and reshapes after it,
/// as long as each has one user.
static SmallVector<Value> viewsAfter(stablehlo::DotGeneralOp op) {
  SmallVector<Value> outputs{op.getResult()};
  while (outputs.back().hasOneUse()) {
    Operation *user = *outputs.back().user_begin();
    if (!isa<stablehlo::TransposeOp, stablehlo::ReshapeOp>(user))
      break;
    outputs.push_back(user->getResult(0));
  }
  return outputs;
}

/// Returns the layout of the dot's result for which the last view is row-major.
static std::optional<SmallVector<Dim>> layoutFor(ArrayRef<Value> views) {
  SmallVector<Dim> dims = StridedView::identity(views.back()).dims;
  for (; views.size() > 1; views = views.drop_back()) {
    Operation *view = views.back().getDefiningOp();
    if (auto transpose = dyn_cast<stablehlo::TransposeOp>(view)) {
      SmallVector<Dim> source(dims.size());
      for (auto [j, d] : llvm::enumerate(transpose.getPermutation()))
        source[d] = dims[j];
      dims = source;
      continue;
    }
    Value source = views.drop_back().back();
    auto reshaped = reshapeDims(dims, typeOf(source).getShape());
    if (!reshaped)
      return std::nullopt;
    dims = *reshaped;
  }
  return dims;
}

StridedView FormGemmsPass::copied(stablehlo::DotGeneralOp op,
                                  const Roles &roles, bool isLhs) {
  StridedView view = StridedView::identity(copyForLayout(op, isLhs));
  StridedView result = view;
  for (auto [i, d] : llvm::enumerate(getPlainOrder(roles, isLhs)))
    result.dims[d] = view.dims[i];
  return result;
}

/// Matches a GEMM with the result in its own layout: looks through the views of
/// operands if that gives a GEMM, and copies operands if nothing else does.
Gemm FormGemmsPass::matchPlain(stablehlo::DotGeneralOp op, const Roles &roles,
                               const StridedView &a, const StridedView &b) {
  SmallVector<Dim> plain = StridedView::identity(op.getResult()).dims;
  StridedView ia = StridedView::identity(op.getLhs());
  StridedView ib = StridedView::identity(op.getRhs());
  // One operand at a time: usually only one has an unsuitable layout.
  if (std::optional<Gemm> gemm = match(target(), roles, ia, b, plain))
    return *gemm;
  if (std::optional<Gemm> gemm = match(target(), roles, a, ib, plain))
    return *gemm;
  if (std::optional<Gemm> gemm = match(target(), roles, ia, ib, plain))
    return *gemm;
  StridedView rhs = copied(op, roles, false);
  if (std::optional<Gemm> gemm = match(target(), roles, a, rhs, plain))
    return *gemm;
  return *match(target(), roles, copied(op, roles, true), rhs, plain);
}

/// Removes multiplies of the result by the scales of FP8 operands; returns the
/// scales, by which the GEMM multiplies.
static SmallVector<Value> foldOperandScales(stablehlo::DotGeneralOp op) {
  SmallVector<Value> scales;
  while (op.getResult().hasOneUse()) {
    Operation *user = *op.getResult().user_begin();
    if (!user->hasAttr(plan::kOperandScaleAttr))
      break;
    auto wide =
        user->getOperand(1).getDefiningOp<stablehlo::BroadcastInDimOp>();
    scales.push_back(wide.getOperand());
    user->getResult(0).replaceAllUsesWith(op.getResult());
    user->erase();
  }
  return scales;
}

namespace {
/// The scales of a dot's operands, of those that have any, and their layouts.
struct Scales {
  SmallVector<Value> values;
  plan::Scaling a = plan::Scaling::Tensor, b = plan::Scaling::Tensor;

  /// True if the scales multiply each element of the product by one factor.
  bool areFactors() const {
    return a == plan::Scaling::Tensor || a == plan::Scaling::Rows;
  }
};
} // namespace

/// Makes the dot read the data of a dequantize by many scales instead of its
/// result, and appends the scales to those of the GEMM. Returns their layout.
static plan::Scaling readData(OpOperand &operand, Scales &scales) {
  auto shaped = operand.get().getDefiningOp<stablehlo::ReshapeOp>();
  auto wide = shaped ? shaped.getOperand().getDefiningOp<DequantizeOp>()
                     : DequantizeOp();
  auto name =
      wide ? wide->getAttrOfType<StringAttr>(plan::kScalingAttr) : nullptr;
  if (!name)
    return plan::Scaling::Tensor;
  OpBuilder b(wide);
  Value data = wide.getData();
  operand.set(stablehlo::ReshapeOp::create(
      b, wide.getLoc(), typeOf(shaped).clone(typeOf(data).getElementType()),
      data));
  scales.values.push_back(StridedView::of(wide.getScale()).base);
  if (shaped->use_empty())
    shaped.erase();
  if (wide->use_empty())
    wide.erase();
  return *plan::symbolizeScaling(name.getValue());
}

static Scales foldScales(stablehlo::DotGeneralOp op) {
  Scales scales;
  scales.a = readData(op.getLhsMutable(), scales);
  scales.b = readData(op.getRhsMutable(), scales);
  if (scales.values.empty())
    scales.values = foldOperandScales(op);
  return scales;
}

/// Hopper's library aligns the result rows of FP8 products to 16 bytes.
static constexpr int64_t kRowBytes = 16;

/// True if the library can write an FP8 product in this layout: the contiguous
/// rows or columns, and the steps between them, are multiples of 16 bytes.
static bool isWritten(const Gemm &gemm, Type element) {
  auto fits = [&](int64_t count) {
    return count * plan::elementBytes(element) % kRowBytes == 0;
  };
  bool isRowMajor = gemm.cn.stride == 1;
  Dim inner = isRowMajor ? gemm.cn : gemm.cm;
  Dim outer = isRowMajor ? gemm.cm : gemm.cn;
  if (!fits(inner.size) || (outer.size != 1 && !fits(outer.stride)))
    return false;
  for (size_t i = 2; i < gemm.batchStrides.size(); i += 3)
    if (!fits(gemm.batchStrides[i]))
      return false;
  return true;
}

/// Folds a rounding of the result to 16 bits: the GEMM rounds its F32 sums once
/// itself.
static void foldRounding(stablehlo::DotGeneralOp op) {
  if (!op.getResult().hasOneUse() ||
      !typeOf(op.getResult()).getElementType().isF32())
    return;
  auto convert = dyn_cast<stablehlo::ConvertOp>(*op.getResult().user_begin());
  Type narrow = convert ? typeOf(convert.getResult()).getElementType() : Type();
  if (!narrow || !(narrow.isBF16() || narrow.isF16()))
    return;
  // The result's own layout must work, in case no other does.
  int64_t row = 1;
  for (int64_t d : Roles(op).rhsFree)
    row *= typeOf(op.getRhs()).getDimSize(d);
  if (hasFP8Elements(op.getLhs().getType()) &&
      row * plan::elementBytes(narrow) % kRowBytes != 0)
    return;
  op.getResult().setType(cast<RankedTensorType>(convert.getType()));
  convert.replaceAllUsesWith(op.getResult());
  convert.erase();
}

/// True if the program requests TF32: by an algorithm, or by the precision HIGH
/// as XLA reads it on a GPU. The default precision means F32 here.
static bool asksTF32(stablehlo::DotGeneralOp op) {
  if (!typeOf(op.getLhs()).getElementType().isF32() ||
      !typeOf(op.getRhs()).getElementType().isF32())
    return false;
  if (auto algorithm = op.getAlgorithmAttr())
    return algorithm.getLhsPrecisionType().isTF32() &&
           algorithm.getRhsPrecisionType().isTF32() &&
           algorithm.getNumPrimitiveOperations() == 1;
  bool isHigh = false;
  for (Attribute attr : op.getPrecisionConfigAttr()
                            ? op.getPrecisionConfigAttr().getValue()
                            : ArrayRef<Attribute>()) {
    auto precision = cast<stablehlo::PrecisionAttr>(attr).getValue();
    if (precision == stablehlo::Precision::HIGHEST)
      return false;
    isHigh |= precision == stablehlo::Precision::HIGH;
  }
  return isHigh;
}

static void buildMatmul(stablehlo::DotGeneralOp op, const Gemm &gemm,
                        double alpha, const Scales &scales, bool isTF32,
                        Value result) {
  OpBuilder builder(op);
  bool isFast = hasFP8Elements(op.getLhs().getType()) &&
                getAccumulation(op) == Accumulation::Fast;
  // The library's block-scaled products accumulate precisely.
  if (isFast && op->hasAttr(kAccumulationAttr) && !scales.areFactors())
    op.emitRemark("is summed precisely, and not 'fast' as the recipe's "
                  "accumulation says: products by blocks have no other sum");
  isFast &= scales.areFactors();
  auto matmul = plan::MatmulOp::create(
      builder, op.getLoc(), result.getType(), Type(), gemm.a.base, gemm.b.base,
      scales.values, Value(), Value(), Value(), gemm.cm.size, gemm.cn.size,
      gemm.ak.size, ArrayRef<int64_t>{gemm.am.stride, gemm.ak.stride},
      ArrayRef<int64_t>{gemm.bk.stride, gemm.bn.stride},
      ArrayRef<int64_t>{gemm.cm.stride, gemm.cn.stride},
      ArrayRef<int64_t>{gemm.a.offset, gemm.b.offset, 0}, gemm.batch,
      gemm.batchStrides, llvm::APFloat(alpha), isFast, isTF32, scales.a,
      scales.b, plan::Epilogue::None);
  copyPhase(op, matmul);
  result.replaceAllUsesWith(matmul.getC());
}

void FormGemmsPass::form(stablehlo::DotGeneralOp op) {
  Scales scales = foldScales(op);
  double alpha = foldAlpha(op);
  if (target().isGPU)
    foldRounding(op);
  Roles roles(op);
  StridedView a = StridedView::of(op.getLhs());
  StridedView b = StridedView::of(op.getRhs());
  SmallVector<Value> outputs = viewsAfter(op);

  // A view that is not folded into the GEMM costs a copy in its user.
  std::optional<Gemm> gemm;
  size_t last = 0;
  double copy = kBytesOfCopy / target().bandwidth *
                static_cast<double>(typeOf(op.getResult()).getNumElements());
  for (size_t i = outputs.size(); i-- > 0;) {
    auto layout = layoutFor(ArrayRef(outputs).take_front(i + 1));
    auto candidate =
        layout ? match(target(), roles, a, b, *layout) : std::nullopt;
    // The library has no batches with many scales.
    if (scales.a != plan::Scaling::Tensor && candidate &&
        !candidate->batch.empty())
      continue;
    if (candidate && hasFP8Elements(op.getLhs().getType()) &&
        !isWritten(*candidate, typeOf(op.getResult()).getElementType()))
      continue;
    if (!candidate || (gemm && candidate->time() + copy >= gemm->time()))
      continue;
    gemm = candidate;
    last = i;
  }
  if (!gemm)
    gemm = matchPlain(op, roles, a, b);
  fixUnit(gemm->am, gemm->ak);
  fixUnit(gemm->bk, gemm->bn);
  fixUnit(gemm->cm, gemm->cn);
  buildMatmul(op, *gemm, alpha, scales, target().isGPU && asksTF32(op),
              outputs[last]);
  for (size_t i = last + 1; i-- > 0;)
    outputs[i].getDefiningOp()->erase();
  ++numGemms;
}

void FormGemmsPass::runOnOperation() {
  SmallVector<stablehlo::DotGeneralOp> dots(
      getOperation().getBody().front().getOps<stablehlo::DotGeneralOp>());
  for (stablehlo::DotGeneralOp dot : dots)
    form(dot);
}
