//===- CastResults.cpp - Products stored as FP8 ---------------------------===//
//
// If the only user of a product is a cast to FP8, by a scale known before the
// product, the library casts: it writes one byte per element, where otherwise
// it writes four and a kernel reads and casts them. It also returns the amax,
// which delayed scales follow. If the only user of the cast is a transpose, the
// product is stored transposed.
//
//===----------------------------------------------------------------------===//

#include "EpilogueChain.h"
#include "ScaleEntries.h"

#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Reductions.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace scalify;

static Type elementOf(Value value) { return typeOf(value).getElementType(); }

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

/// Returns the number that all elements equal, if it is a constant.
static std::optional<APFloat> getNumber(Value value) {
  value = lookThrough(value, Move::Broadcast | Move::Reshape);
  DenseFPElementsAttr constant;
  if (!matchPattern(value, m_Constant(&constant)) || !constant.isSplat())
    return std::nullopt;
  return constant.getSplatValue<APFloat>();
}

/// Returns the F32 scalar that `value` broadcasts, if there is one.
static Value getScalar(Value value) {
  value = lookThrough(value, Move::Broadcast);
  return typeOf(value).getRank() == 0 && elementOf(value).isF32() ? value
                                                                  : Value();
}

bool Cast::isLike(const Cast &other) const {
  if (format != other.format || divides != other.divides ||
      isScaleMoved != other.isScaleMoved)
    return false;
  if (scale == other.scale)
    return true;
  std::optional<APFloat> number = scale ? getNumber(scale) : std::nullopt,
                         its = other.scale ? getNumber(other.scale)
                                           : std::nullopt;
  return number && its && number->bitwiseIsEqual(*its);
}

namespace {
/// Reads the ops from a value to its cast to FP8.
class CastReader {
public:
  /// Returns the result and the cast that starts with `user` of `value`; none
  /// if an op on the way is not part of a cast.
  std::optional<std::pair<Value, Cast>> read(Operation *user, Value value);

private:
  bool step(Operation *op, Value value);

  Cast cast;
  std::optional<APFloat> low, high;
};
} // namespace

/// Records `op` on `value` as a scaling or a clamp of the cast; false if it is
/// neither.
bool CastReader::step(Operation *op, Value value) {
  bool isLhs = op->getOperand(0) == value;
  bool isClipped = low || high;
  if (auto divide = dyn_cast<stablehlo::DivOp>(op); divide && !isLhs)
    return false;
  if (isa<stablehlo::MulOp, stablehlo::DivOp>(op)) {
    if (cast.scale || isClipped)
      return false;
    cast.scale = getScalar(op->getOperand(isLhs ? 1 : 0));
    cast.divides = isa<stablehlo::DivOp>(op);
    return static_cast<bool>(cast.scale);
  }
  if (auto clamp = dyn_cast<stablehlo::ClampOp>(op)) {
    if (isClipped)
      return false;
    low = getNumber(clamp.getMin());
    high = getNumber(clamp.getMax());
    return low && high && clamp.getOperand() == value;
  }
  if (!isa<stablehlo::MaxOp, stablehlo::MinOp>(op))
    return false;
  std::optional<APFloat> &bound = isa<stablehlo::MaxOp>(op) ? low : high;
  if (bound)
    return false;
  bound = getNumber(op->getOperand(isLhs ? 1 : 0));
  return bound.has_value();
}

std::optional<std::pair<Value, Cast>> CastReader::read(Operation *user,
                                                       Value value) {
  for (Operation *op = user;;) {
    if (auto quantize = dyn_cast<QuantizeOp>(op)) {
      if (cast.scale || low || high || quantize.getCounter() ||
          quantize.getBlock() ||
          quantize.getRounding() != RoundingMode::Nearest ||
          !hasFP8Elements(quantize.getType()))
        return std::nullopt;
      cast.format = elementOf(quantize);
      cast.scale = quantize.getScale();
      cast.divides = cast.isCounted = true;
      cast.isScaleMoved = quantize->hasAttr(plan::kScaleEntryAttr);
      return std::pair(quantize.getResult(), cast);
    }
    if (isa<stablehlo::ConvertOp>(op) &&
        hasFP8Elements(op->getResult(0).getType())) {
      cast.format = elementOf(op->getResult(0));
      double largest = getLargestFinite(llvm::cast<FloatType>(cast.format));
      cast.saturates = low && high;
      if ((low && low->convertToDouble() != -largest) ||
          (high && high->convertToDouble() != largest))
        return std::nullopt;
      return std::pair(op->getResult(0), cast);
    }
    if (op->getNumResults() != 1 || !step(op, value) ||
        !op->getResult(0).hasOneUse())
      return std::nullopt;
    value = op->getResult(0);
    op = *value.user_begin();
    if (op->getAttr(plan::kTaskAttr) != user->getAttr(plan::kTaskAttr))
      return std::nullopt;
  }
}

//===----------------------------------------------------------------------===//
// Users of a product
//===----------------------------------------------------------------------===//

static bool isWidening(Operation *op) {
  return isa<stablehlo::ConvertOp>(op) && elementOf(op->getResult(0)).isF32();
}

/// Returns the amax of all elements, in F32, if `user` starts its computation.
static Value findAmax(Operation *user, Value value) {
  if (!isa<stablehlo::AbsOp>(user))
    return {};
  value = user->getResult(0);
  while (countOf(value) != 1) {
    if (!value.hasOneUse())
      return {};
    Operation *op = *value.user_begin();
    if (op->getAttr(plan::kTaskAttr) != user->getAttr(plan::kTaskAttr))
      return {};
    if (auto reduce = dyn_cast<stablehlo::ReduceOp>(op)) {
      if (reduce.getInputs().size() != 1 || reduce.getInputs()[0] != value ||
          !isa<stablehlo::MaxOp>(reduce.getBody().front().front()) ||
          !hasNeutralInit(reduce))
        return {};
      // Of magnitudes, an initial value of 0 or less changes nothing.
      std::optional<APFloat> init = getNumber(reduce.getInitValues()[0]);
      if (!init || !(init->isZero() || init->isNegative()))
        return {};
    } else if (!isa<stablehlo::ReshapeOp>(op) && !isWidening(op)) {
      return {};
    }
    value = op->getResult(0);
  }
  return elementOf(value).isF32() ? value : Value();
}

/// True if the scale cannot be computed before the product: it depends on it,
/// such as a scale from its amax, or on a collective or another stage.
static bool mustFollowProduct(Value scale, const Chain &chain) {
  plan::MatmulOp product = chain.product;
  Operation *maker = scale.getDefiningOp();
  if (!maker || maker->isBeforeInBlock(product))
    return false;
  llvm::SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  options.omitBlockArguments = true;
  options.omitUsesFromAbove = false;
  options.filter = [&](Operation *op) { return !op->isBeforeInBlock(product); };
  return failed(getBackwardSlice(maker, &slice, options)) ||
         slice.contains(product) || !llvm::all_of(slice, [&](Operation *op) {
           return isMemoryEffectFree(op) && isNear(op, chain);
         });
}

/// Returns the transpose of rows and columns that is the only user of the
/// value, if there is one.
static Value getTransposed(Value value, plan::MatmulOp product) {
  auto turn = value.hasOneUse()
                  ? dyn_cast<stablehlo::TransposeOp>(*value.user_begin())
                  : stablehlo::TransposeOp();
  if (!turn)
    return {};
  // Moves the columns before the rows: a rotation of the dimensions.
  ArrayRef<int64_t> order = turn.getPermutation();
  auto shape = typeOf(value).getShape();
  int64_t outer = 1;
  for (int64_t d = 0; d < order[0]; ++d)
    outer *= shape[d];
  for (auto [i, d] : llvm::enumerate(order))
    if (d != static_cast<int64_t>((order[0] + i) % order.size()))
      return {};
  auto m = static_cast<int64_t>(product.getM()),
       n = static_cast<int64_t>(product.getN());
  bool isRowMajor = product.getCStrides() == ArrayRef<int64_t>{n, 1},
       isColumnMajor = product.getCStrides() == ArrayRef<int64_t>{1, m};
  return (isRowMajor && outer == m) || (isColumnMajor && outer == n)
             ? turn.getResult()
             : Value();
}

/// The alignment of result rows, in bytes, which are elements of FP8.
static constexpr int64_t kRowAlignment = 16;

/// Stores the result transposed if all users of the cast are transposes.
static void turn(Chain &chain) {
  plan::MatmulOp product = chain.product;
  bool isRowMajor = product.getCStrides()[1] == 1;
  uint64_t inner = isRowMajor ? product.getM() : product.getN();
  if (chain.epilogue() != plan::Epilogue::None || inner % kRowAlignment)
    return;
  SmallVector<Value> turned;
  for (Value value : chain.values)
    turned.push_back(getTransposed(value, product));
  if (!llvm::all_of(turned, [&](Value value) {
        return value && value.getType() == turned.front().getType();
      }))
    return;
  chain.values = turned;
  chain.isTurned = true;
}

std::optional<Chain> scalify::castToFP8(Chain chain) {
  if (!isFP8(chain.product) || chain.isGradient() || !chain.signs.empty() ||
      !chain.kept.empty())
    return std::nullopt;
  // Looks through widened copies.
  SmallVector<Value> values(chain.values), results;
  for (size_t i = 0; i < values.size(); ++i)
    for (Operation *user : values[i].getUsers()) {
      Value value = values[i];
      if (isWidening(user)) {
        values.push_back(user->getResult(0));
        continue;
      }
      if (!isNear(user, chain))
        return std::nullopt;
      if (Value amax = findAmax(user, value)) {
        chain.amaxes.push_back(amax);
        continue;
      }
      auto found = CastReader().read(user, value);
      if (!found || (chain.cast && !chain.cast->isLike(found->second)))
        return std::nullopt;
      auto [result, cast] = *found;
      if (chain.cast) {
        cast.isCounted |= chain.cast->isCounted;
        cast.saturates &= chain.cast->saturates;
      }
      chain.cast = cast;
      results.push_back(result);
    }
  if (!chain.cast ||
      (chain.cast->scale && mustFollowProduct(chain.cast->scale, chain)))
    return std::nullopt;
  chain.values = results;
  turn(chain);
  return chain;
}

//===----------------------------------------------------------------------===//
// Whether the library can cast
//===----------------------------------------------------------------------===//

/// True if the cast multiplies by its scale, or divides by a power of two.
static bool isExact(const Cast &cast) {
  if (!cast.divides || !cast.scale)
    return true;
  std::optional<APFloat> number = getNumber(cast.scale);
  return number && number->getExactInverse(nullptr);
}

/// Returns why the library's cast would differ from the program's or go
/// uncounted, or "".
static std::string whyNotExact(const Chain &chain) {
  if (chain.cast->isCounted)
    return "the library's cast does not count saturated values";
  if (!chain.cast->saturates)
    return "values beyond the format become NaN in the program, and saturate "
           "in the library's cast";
  plan::MatmulOp op = chain.product;
  if (!elementOf(op.getC()).isF32() || chain.isRounded)
    return "the program rounds the product before it casts";
  return isExact(*chain.cast) ? ""
                              : "the library multiplies by the reciprocal of "
                                "the program's divisor";
}

std::string scalify::whyNotCast(const Chain &chain, bool isLoose) {
  plan::MatmulOp op = chain.product;
  auto isE5M2 = [](Type type) { return isa<Float8E5M2Type>(type); };
  if (isE5M2(chain.cast->format) && !isE5M2(elementOf(op.getA())) &&
      !isE5M2(elementOf(op.getB())))
    return "the library has no E5M2 result of two E4M3 operands";
  bool isRowMajor = (op.getCStrides()[1] == 1) != chain.isTurned;
  uint64_t row = isRowMajor ? op.getN() : op.getM();
  if (row % kRowAlignment)
    return "rows of the result would be no multiple of 16 bytes";
  // A transposed result is contiguous.
  int64_t step = op.getCStrides()[op.getCStrides()[1] == 1 ? 0 : 1];
  if (!chain.isTurned && step % kRowAlignment)
    return "rows of the result would begin at no multiple of 16 bytes";
  if (chain.cast->isScaleMoved)
    return "its scale follows the counts of the cast";
  std::string why = isLoose ? "" : whyNotExact(chain);
  return why.empty() ? "" : why + " (epilogues=all allows it)";
}

Value scalify::getMultiplier(const Chain &chain) {
  Value scale = chain.cast->scale;
  if (!scale)
    return {};
  plan::MatmulOp product = chain.product;
  IRRewriter b(product);
  auto type = RankedTensorType::get({}, b.getF32Type());
  std::optional<APFloat> number = getNumber(scale);
  if (!number) {
    LogicalResult moved = moveValueDefinitions(b, scale, product);
    assert(succeeded(moved) && "the scale comes late");
    (void)moved;
    if (!chain.cast->divides)
      return scale;
    b.setInsertionPoint(product);
    Value one = stablehlo::buildConstant(b, scale.getLoc(), type, 1.0f);
    return stablehlo::DivOp::create(b, scale.getLoc(), one, scale);
  }
  float factor = number->convertToFloat();
  if (chain.cast->divides)
    factor = 1 / factor;
  if (factor == 1)
    return {};
  auto stored = stablehlo::buildConstant(b, scale.getLoc(), type, factor);
  stored->setAttr(kInMemoryAttr, b.getUnitAttr());
  return stored;
}
