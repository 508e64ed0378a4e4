//===- AttentionParts.cpp - Subpatterns of an attention -------------------===//

#include "AttentionParts.h"

#include "OpCosts.h"
#include "ScaleEntries.h"

#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Idioms/Rows.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;
using namespace scalify::attention;

static std::optional<APInt> getBits(Value value) {
  auto constant = value.getDefiningOp<stablehlo::ConstantOp>();
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue())
                        : SplatElementsAttr();
  if (!splat)
    return std::nullopt;
  return isa<FloatType>(splat.getElementType())
             ? splat.getSplatValue<APFloat>().bitcastToAPInt()
             : splat.getSplatValue<APInt>();
}

/// Returns an F32 constant with its bits masked: the power of two of a scale
/// that an unrolled loop carried has this form.
static std::optional<double> getMaskedNumber(Value value) {
  auto number = value.getDefiningOp<BitcastConvertOp>();
  auto masked = number ? number.getOperand().getDefiningOp<AndOp>() : AndOp();
  auto bits = masked ? masked.getLhs().getDefiningOp<BitcastConvertOp>()
                     : BitcastConvertOp();
  std::optional<APInt> word = bits ? getBits(bits.getOperand()) : std::nullopt;
  std::optional<APInt> mask = masked ? getBits(masked.getRhs()) : std::nullopt;
  if (!word || !mask || !typeOf(value).getElementType().isF32() ||
      word->getBitWidth() != mask->getBitWidth())
    return std::nullopt;
  return APFloat(APFloat::IEEEsingle(), *word & *mask).convertToDouble();
}

std::optional<double> scalify::getSplatNumber(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastInDimOp>())
    value = broadcast.getOperand();
  if (std::optional<double> number = getMaskedNumber(value))
    return number;
  auto constant = value.getDefiningOp<stablehlo::ConstantOp>();
  if (!constant || constant->hasAttr(plan::kScaleEntryAttr))
    return std::nullopt;
  auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
  if (!splat || !isa<FloatType>(splat.getElementType()))
    return std::nullopt;
  return splat.getSplatValue<APFloat>().convertToDouble();
}

bool AttentionOperand::operator==(const AttentionOperand &other) const {
  return base == other.base && offset == other.offset &&
         llvm::all_of(llvm::zip(dims, other.dims), [](auto pair) {
           auto [x, y] = pair;
           return x.size == y.size && (x.size == 1 || x.stride == y.stride);
         });
}

//===----------------------------------------------------------------------===//
// Values that equal another value, permuted and times a number
//===----------------------------------------------------------------------===//

static Scaled startAt(Value value) {
  return {value,
          llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank())), 1.0};
}

static std::optional<double> getCastScale(Operation *cast) {
  if (cast->hasAttr(plan::kScaleEntryAttr) ||
      typeOf(cast->getOperand(1)).getRank() != 0)
    return std::nullopt;
  return getSplatNumber(cast->getOperand(1));
}

/// If `op` does no more than multiply one operand by a number and round it,
/// returns the operand's index and the number.
static std::optional<std::pair<unsigned, double>> getFactor(Operation *op) {
  using Result = std::optional<std::pair<unsigned, double>>;
  auto at = [](unsigned place, std::optional<double> factor) {
    return factor ? Result({place, *factor}) : std::nullopt;
  };
  auto isFloat = [](Value value) {
    return isa<FloatType>(typeOf(value).getElementType());
  };
  if (auto convert = dyn_cast<ConvertOp>(op))
    return isFloat(convert.getOperand()) && isFloat(convert.getResult())
               ? at(0, 1.0)
               : std::nullopt;
  if (auto quantize = dyn_cast<QuantizeOp>(op)) {
    std::optional<double> scale = getCastScale(op);
    return at(0, scale ? std::optional(1 / *scale) : std::nullopt);
  }
  if (isa<DequantizeOp>(op))
    return at(0, getCastScale(op));
  if (auto div = dyn_cast<DivOp>(op)) {
    std::optional<double> divisor = getSplatNumber(div.getRhs());
    return at(0, divisor ? std::optional(1 / *divisor) : std::nullopt);
  }
  if (auto mul = dyn_cast<MulOp>(op)) {
    if (auto right = getSplatNumber(mul.getRhs()))
      return at(0, right);
    return at(1, getSplatNumber(mul.getLhs()));
  }
  return std::nullopt;
}

std::optional<std::pair<DotGeneralOp, Scaled>>
attention::traceToDot(Value value) {
  Scaled scaled = startAt(value);
  for (Operation *op = value.getDefiningOp(); op; op = value.getDefiningOp()) {
    if (auto dot = dyn_cast<DotGeneralOp>(op))
      return std::make_pair(dot, scaled);
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      for (int64_t &d : scaled.order)
        d = transpose.getPermutation()[d];
      value = transpose.getOperand();
      continue;
    }
    auto factor = getFactor(op);
    if (!factor)
      break;
    value = op->getOperand(factor->first);
    scaled.factor *= factor->second;
  }
  return std::nullopt;
}

SmallVector<ScaledUse>
attention::traceUses(Value value, llvm::function_ref<bool(SelectOp)> isMask) {
  SmallVector<Scaled> forms{startAt(value)};
  SmallVector<ScaledUse> uses;
  while (!forms.empty()) {
    Scaled form = forms.pop_back_val();
    for (OpOperand &use : form.value.getUses()) {
      Operation *op = use.getOwner();
      if (isOpTriviallyDead(op))
        continue;
      Scaled next = form;
      auto factor = getFactor(op);
      if (auto transpose = dyn_cast<TransposeOp>(op)) {
        next.order.clear();
        for (int64_t d : transpose.getPermutation())
          next.order.push_back(form.order[d]);
      } else if (factor && factor->first == use.getOperandNumber()) {
        next.factor *= factor->second;
      } else if (auto select = dyn_cast<SelectOp>(op);
                 !select || !isMask(select)) {
        uses.push_back({form, &use});
        continue;
      }
      next.value = op->getResult(0);
      forms.push_back(next);
    }
  }
  return uses;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

Value attention::skipViews(Value value) {
  while (Operation *view = value.getDefiningOp()) {
    auto broadcast = dyn_cast<BroadcastInDimOp>(view);
    bool isView =
        isa<ReshapeOp>(view) ||
        (broadcast && llvm::is_sorted(broadcast.getBroadcastDimensions()));
    if (!isView || countOf(view->getOperand(0)) != countOf(value))
      break;
    value = view->getOperand(0);
  }
  return value;
}

// Dimensions of size 1 may be missing: JAX drops them in some gradients of a
// batch of one.
Value attention::getRowValue(Value value, int64_t row) {
  auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
  if (!broadcast || !llvm::is_sorted(broadcast.getBroadcastDimensions()))
    return {};
  RankedTensorType from = typeOf(broadcast.getOperand()), to = typeOf(value);
  SmallVector<int64_t> sizes(to.getRank(), 1), wanted(to.getShape());
  for (auto [i, d] : llvm::enumerate(broadcast.getBroadcastDimensions()))
    sizes[d] = from.getDimSize(static_cast<unsigned>(i));
  wanted[row] = 1;
  return sizes == wanted ? skipViews(broadcast.getOperand()) : Value();
}

/// Returns the sum of one tensor that `value` is, or null.
static ReduceOp matchSum(Value value) {
  auto reduce = value ? value.getDefiningOp<ReduceOp>() : ReduceOp();
  bool isSum = reduce && reduce.getInputs().size() == 1 &&
               getSplatNumber(reduce.getInitValues()[0]) == 0.0 &&
               getReductionKind(reduce.getBody()) == ReductionKind::Add;
  return isSum ? reduce : ReduceOp();
}

/// The same for a sum over dimension `row` only.
static ReduceOp matchSum(Value value, int64_t row) {
  ReduceOp reduce = matchSum(value);
  return reduce && reduce.getDimensions() == ArrayRef<int64_t>{row}
             ? reduce
             : ReduceOp();
}

ReduceOp attention::matchRowSum(Value value, int64_t row) {
  return matchSum(getRowValue(value, row), row);
}

Value attention::getOtherFactor(Value product, Value factor) {
  auto mul = product.getDefiningOp<MulOp>();
  if (!mul)
    return {};
  return mul.getLhs() == factor   ? mul.getRhs()
         : mul.getRhs() == factor ? mul.getLhs()
                                  : Value();
}

// Looks through sums of one element, too.
ReduceOp attention::matchNegatedSum(Value value, int64_t row) {
  bool isNegated = false;
  while (value) {
    value = skipViews(value);
    Operation *op = value.getDefiningOp();
    auto reduce = dyn_cast_or_null<ReduceOp>(op);
    if (auto negate = dyn_cast_or_null<NegOp>(op)) {
      isNegated = !isNegated;
      value = negate.getOperand();
    } else if (reduce && matchSum(value) &&
               countOf(reduce.getInputs()[0]) == countOf(value)) {
      value = reduce.getInputs()[0];
    } else {
      break;
    }
  }
  return isNegated ? matchSum(value, row) : ReduceOp();
}

/// Returns the dimension of `value` along which an iota counts, or -1.
static int64_t getCountedDim(Value value) {
  SmallVector<int64_t> dims =
      llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank()));
  while (auto broadcast = value.getDefiningOp<BroadcastInDimOp>()) {
    SmallVector<int64_t> next;
    for (int64_t d : broadcast.getBroadcastDimensions())
      next.push_back(dims[d]);
    dims = next;
    value = broadcast.getOperand();
  }
  auto iota = value.getDefiningOp<IotaOp>();
  return iota ? dims[iota.getIotaDimension()] : -1;
}

std::optional<CausalMask> attention::matchCausalMask(Value predicate) {
  SmallVector<int64_t> dims =
      llvm::to_vector(llvm::seq<int64_t>(0, typeOf(predicate).getRank()));
  if (auto broadcast = predicate.getDefiningOp<BroadcastInDimOp>()) {
    dims = llvm::to_vector(broadcast.getBroadcastDimensions());
    predicate = broadcast.getOperand();
  }
  auto compare = predicate.getDefiningOp<CompareOp>();
  if (!compare)
    return std::nullopt;
  int64_t lhs = getCountedDim(compare.getLhs());
  int64_t rhs = getCountedDim(compare.getRhs());
  if (lhs < 0 || rhs < 0 || lhs == rhs)
    return std::nullopt;
  lhs = dims[lhs];
  rhs = dims[rhs];
  switch (compare.getComparisonDirection()) {
  case ComparisonDirection::GE:
    return CausalMask{lhs, rhs, false};
  case ComparisonDirection::LE:
    return CausalMask{rhs, lhs, false};
  case ComparisonDirection::LT:
    return CausalMask{lhs, rhs, true};
  case ComparisonDirection::GT:
    return CausalMask{rhs, lhs, true};
  default:
    return std::nullopt;
  }
}

//===----------------------------------------------------------------------===//
// Dots with named dimensions
//===----------------------------------------------------------------------===//

static SmallVector<int64_t> getFreeDims(Value value, ArrayRef<int64_t> batch,
                                        ArrayRef<int64_t> sum) {
  SmallVector<int64_t> free;
  for (int64_t d = 0; d < typeOf(value).getRank(); ++d)
    if (!llvm::is_contained(batch, d) && !llvm::is_contained(sum, d))
      free.push_back(d);
  return free;
}

namespace {
/// Roles of the dimensions of a dot's operand.
struct Side {
  Value value;
  ArrayRef<int64_t> batch, sum;
  SmallVector<int64_t> free;
};
} // namespace

static Side getSide(DotGeneralOp dot, bool isLhs) {
  auto numbers = dot.getDotDimensionNumbers();
  Side side;
  side.value = isLhs ? dot.getLhs() : dot.getRhs();
  side.batch = isLhs ? numbers.getLhsBatchingDimensions()
                     : numbers.getRhsBatchingDimensions();
  side.sum = isLhs ? numbers.getLhsContractingDimensions()
                   : numbers.getRhsContractingDimensions();
  side.free = getFreeDims(side.value, side.batch, side.sum);
  return side;
}

static std::optional<AttentionOperand> getOperand(Value value,
                                                  ArrayRef<Axis> axes) {
  StridedView view = StridedView::of(value);
  AttentionOperand operand;
  operand.base = view.base;
  operand.offset = view.offset;
  for (auto [axis, dim] : llvm::zip_equal(axes, view.dims)) {
    if (operand[axis].size != 1)
      return std::nullopt;
    operand[axis] = dim;
  }
  return operand;
}

bool attention::matchChannelDot(DotGeneralOp dot, ArrayRef<Axis> result,
                                AttentionOperand &querySide,
                                AttentionOperand &keySide) {
  unsigned next =
      dot.getDotDimensionNumbers().getLhsBatchingDimensions().size();
  bool hasKeys = false;
  for (bool isLhs : {true, false}) {
    Side side = getSide(dot, isLhs);
    if (side.sum.size() != 1)
      return false;
    Axes axes(typeOf(side.value).getRank(), Axis::Channel);
    for (auto [i, d] : llvm::enumerate(side.batch))
      axes[d] = result[i];
    bool isKey = false;
    for (int64_t d : side.free) {
      axes[d] = result[next++];
      isKey |= axes[d] == Axis::Key;
    }
    if (isKey && (side.free.size() != 1 || hasKeys))
      return false;
    hasKeys |= isKey;
    auto operand = getOperand(side.value, axes);
    if (!operand)
      return false;
    (isKey ? keySide : querySide) = *operand;
  }
  return hasKeys;
}

std::optional<AttentionDot> attention::matchMixDot(OpOperand &use,
                                                   ArrayRef<Axis> axes) {
  auto dot = dyn_cast<DotGeneralOp>(use.getOwner());
  if (!dot || dot.getLhs() == dot.getRhs())
    return std::nullopt;
  bool isLhs = use.getOperandNumber() == 0;
  Side weights = getSide(dot, isLhs), other = getSide(dot, !isLhs);
  if (other.free.size() != 1)
    return std::nullopt;
  Axes otherAxes(typeOf(other.value).getRank(), Axis::Channel);
  for (auto [w, o] : llvm::zip_equal(weights.batch, other.batch))
    otherAxes[o] = axes[w];
  for (auto [w, o] : llvm::zip_equal(weights.sum, other.sum))
    otherAxes[o] = axes[w];
  auto operand = getOperand(other.value, otherAxes);
  if (!operand)
    return std::nullopt;
  AttentionDot mix;
  mix.op = dot;
  mix.operand = *operand;
  for (int64_t d : weights.batch)
    mix.axes.push_back(axes[d]);
  if (!isLhs)
    mix.axes.push_back(Axis::Channel);
  for (int64_t d : weights.free)
    mix.axes.push_back(axes[d]);
  if (isLhs)
    mix.axes.push_back(Axis::Channel);
  return mix;
}
