//===- ConstantFolds.cpp - Evaluate elementwise ops of constants ----------===//
//
// Only operations that IEEE 754 or integer arithmetic defines to the last bit
// are evaluated: a folded exponential would differ from the target's.
// Conversions to and from 8-bit floats stay, since the recipe determines their
// overflow.
//
//===----------------------------------------------------------------------===//

#include "scalify/Import/Folds.h"

#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/APSInt.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <variant>

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

using Element = std::variant<APInt, APFloat>;
using MaybeElement = std::optional<Element>;

static constexpr auto kRounding = APFloat::rmNearestTiesToEven;

//===----------------------------------------------------------------------===//
// Queries used by other families
//===----------------------------------------------------------------------===//

DenseElementsAttr scalify::import::getConstant(Value value) {
  DenseElementsAttr elements;
  if (matchPattern(value, m_Constant(&elements)))
    return elements;
  return {};
}

bool scalify::import::isZero(Value value) {
  return matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero());
}

bool scalify::import::isNegativeZero(Value value) {
  return matchPattern(value, m_NegZeroFloat());
}

bool scalify::import::isOne(Value value) {
  return matchPattern(value, m_OneFloat()) || matchPattern(value, m_One());
}

int64_t scalify::import::getMaxElements(Type type, int64_t maxElements) {
  return getElementTypeOrSelf(type).isInteger(1)
             ? std::min<int64_t>(maxElements, 99)
             : maxElements;
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// Applies the int or the float version of an operation.
template <typename IntFn, typename FloatFn>
static MaybeElement apply(const Element &lhs, const Element &rhs, IntFn onInts,
                          FloatFn onFloats) {
  if (auto *a = std::get_if<APInt>(&lhs))
    return MaybeElement(onInts(*a, std::get<APInt>(rhs)));
  return MaybeElement(onFloats(std::get<APFloat>(lhs), std::get<APFloat>(rhs)));
}

/// True if two integers have a quotient: not for division by zero, nor for the
/// least number divided by -1, which overflows.
static bool hasQuotient(const APInt &lhs, const APInt &rhs,
                        bool isUnsignedInt) {
  if (rhs.isZero())
    return false;
  return isUnsignedInt || !lhs.isMinSignedValue() || !rhs.isAllOnes();
}

static MaybeElement divide(const Element &lhs, const Element &rhs,
                           bool isUnsignedInt) {
  if (auto *real = std::get_if<APFloat>(&lhs))
    return Element(*real / std::get<APFloat>(rhs));
  const APInt &a = std::get<APInt>(lhs), &b = std::get<APInt>(rhs);
  if (!hasQuotient(a, b, isUnsignedInt))
    return std::nullopt;
  return Element(isUnsignedInt ? a.udiv(b) : a.sdiv(b));
}

static MaybeElement remainder(const Element &lhs, const Element &rhs,
                              bool isUnsignedInt) {
  if (!std::holds_alternative<APInt>(lhs))
    return std::nullopt;
  const APInt &a = std::get<APInt>(lhs), &b = std::get<APInt>(rhs);
  if (!hasQuotient(a, b, isUnsignedInt))
    return std::nullopt;
  return Element(isUnsignedInt ? a.urem(b) : a.srem(b));
}

static MaybeElement sign(const Element &x, bool isUnsignedInt) {
  auto *number = std::get_if<APInt>(&x);
  if (!number)
    return std::nullopt;
  unsigned width = number->getBitWidth();
  if (!isUnsignedInt && number->isNegative())
    return Element(APInt::getAllOnes(width));
  return Element(APInt(width, !number->isZero()));
}

static MaybeElement extreme(const Element &lhs, const Element &rhs,
                            bool takeMax, bool isUnsignedInt) {
  return apply(
      lhs, rhs,
      [&](const APInt &a, const APInt &b) {
        bool less = isUnsignedInt ? a.ult(b) : a.slt(b);
        return less == takeMax ? b : a;
      },
      [&](const APFloat &a, const APFloat &b) {
        return takeMax ? llvm::maximum(a, b) : llvm::minimum(a, b);
      });
}

static MaybeElement compare(stablehlo::CompareOp op, const Element &lhs,
                            const Element &rhs, bool isUnsignedInt) {
  using Direction = stablehlo::ComparisonDirection;
  bool less, equal, ordered = true;
  if (auto *a = std::get_if<APFloat>(&lhs)) {
    APFloat::cmpResult order = a->compare(std::get<APFloat>(rhs));
    less = order == APFloat::cmpLessThan;
    equal = order == APFloat::cmpEqual;
    ordered = order != APFloat::cmpUnordered;
  } else {
    const APInt &x = std::get<APInt>(lhs), &y = std::get<APInt>(rhs);
    less = isUnsignedInt ? x.ult(y) : x.slt(y);
    equal = x == y;
  }
  auto holds = [&] {
    switch (op.getComparisonDirection()) {
    case Direction::EQ:
      return equal;
    case Direction::NE:
      return !equal;
    case Direction::LT:
      return less;
    case Direction::LE:
      return less || equal;
    case Direction::GT:
      return ordered && !less && !equal;
    case Direction::GE:
      return ordered && !less;
    }
    llvm_unreachable("unknown comparison direction");
  };
  return Element(APInt(1, holds()));
}

static bool isFoldableFloat(Type type) {
  return isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(type);
}

static MaybeElement convertInt(const APInt &value, Type from, Type to) {
  if (auto type = dyn_cast<FloatType>(to)) {
    if (!isFoldableFloat(type))
      return std::nullopt;
    APFloat result(type.getFloatSemantics());
    result.convertFromAPInt(value, !stablehlo::hasUnsignedElements(from),
                            kRounding);
    return Element(result);
  }
  if (to.isInteger(1))
    return Element(APInt(1, !value.isZero()));
  unsigned width = to.getIntOrFloatBitWidth();
  return Element(APInt(stablehlo::numberOf(value, from).extOrTrunc(width)));
}

static MaybeElement convertFloat(APFloat value, Type from, Type to) {
  if (!isFoldableFloat(from))
    return std::nullopt;
  bool exact;
  if (auto type = dyn_cast<FloatType>(to)) {
    if (!isFoldableFloat(type))
      return std::nullopt;
    value.convert(type.getFloatSemantics(), kRounding, &exact);
    return Element(value);
  }
  if (to.isInteger(1))
    return Element(APInt(1, !value.isZero()));
  APSInt result(to.getIntOrFloatBitWidth(), stablehlo::hasUnsignedElements(to));
  // Out of range the result depends on the kernel.
  if (value.convertToInteger(result, APFloat::rmTowardZero, &exact) &
      APFloat::opInvalidOp)
    return std::nullopt;
  return Element(APInt(result));
}

static MaybeElement convert(const Element &value, Type from, Type to) {
  if (!to.isIntOrFloat())
    return std::nullopt;
  if (auto *number = std::get_if<APInt>(&value))
    return convertInt(*number, from, to);
  return convertFloat(std::get<APFloat>(value), from, to);
}

static MaybeElement shift(const Element &lhs, const Element &rhs, bool left) {
  const APInt &value = std::get<APInt>(lhs), &amount = std::get<APInt>(rhs);
  if (amount.uge(value.getBitWidth()))
    return Element(APInt::getZero(value.getBitWidth()));
  return Element(left ? value.shl(amount) : value.lshr(amount));
}

static MaybeElement evaluateUnary(Operation *op, const Element &x) {
  auto *number = std::get_if<APInt>(&x);
  auto *real = std::get_if<APFloat>(&x);
  bool isUnsignedInt =
      stablehlo::hasUnsignedElements(op->getOperand(0).getType());
  return llvm::TypeSwitch<Operation *, MaybeElement>(op)
      .Case([&](stablehlo::NegOp) -> MaybeElement {
        return number ? Element(-*number) : Element(neg(*real));
      })
      .Case([&](stablehlo::AbsOp) -> MaybeElement {
        if (real)
          return Element(abs(*real));
        return Element(isUnsignedInt ? *number : number->abs());
      })
      .Case([&](stablehlo::NotOp) -> MaybeElement { return Element(~*number); })
      .Case([&](stablehlo::SignOp) { return sign(x, isUnsignedInt); })
      .Case([&](stablehlo::IsFiniteOp) -> MaybeElement {
        return Element(APInt(1, real->isFinite()));
      })
      .Case([&](stablehlo::SqrtOp) -> MaybeElement {
        // The host's sqrt is exact by IEEE 754. Only F32 is implemented.
        if (!real || &real->getSemantics() != &APFloat::IEEEsingle())
          return std::nullopt;
        return Element(APFloat(std::sqrt(real->convertToFloat())));
      })
      .Case([&](stablehlo::ConvertOp convertOp) {
        return convert(x, getElementTypeOrSelf(convertOp.getOperand()),
                       getElementTypeOrSelf(convertOp.getResult()));
      })
      .Default([](Operation *) -> MaybeElement { return std::nullopt; });
}

static MaybeElement evaluateBinary(Operation *op, const Element &lhs,
                                   const Element &rhs) {
  bool isUnsignedInt =
      stablehlo::hasUnsignedElements(op->getOperand(0).getType());
  bool isPred = getElementTypeOrSelf(op->getOperand(0)).isInteger(1);
  auto ints = [&](auto function) {
    return Element(function(std::get<APInt>(lhs), std::get<APInt>(rhs)));
  };
  return llvm::TypeSwitch<Operation *, MaybeElement>(op)
      .Case([&](stablehlo::AddOp) -> MaybeElement {
        if (isPred)
          return ints([](const APInt &a, const APInt &b) { return a | b; });
        return apply(lhs, rhs, std::plus<>(), std::plus<>());
      })
      .Case([&](stablehlo::SubtractOp) {
        return apply(lhs, rhs, std::minus<>(), std::minus<>());
      })
      .Case([&](stablehlo::MulOp) {
        return apply(lhs, rhs, std::multiplies<>(), std::multiplies<>());
      })
      .Case([&](stablehlo::DivOp) { return divide(lhs, rhs, isUnsignedInt); })
      .Case(
          [&](stablehlo::RemOp) { return remainder(lhs, rhs, isUnsignedInt); })
      .Case([&](stablehlo::MaxOp) {
        return extreme(lhs, rhs, /*takeMax=*/true, isUnsignedInt);
      })
      .Case([&](stablehlo::MinOp) {
        return extreme(lhs, rhs, /*takeMax=*/false, isUnsignedInt);
      })
      .Case([&](stablehlo::AndOp) -> MaybeElement {
        return ints([](const APInt &a, const APInt &b) { return a & b; });
      })
      .Case([&](stablehlo::OrOp) -> MaybeElement {
        return ints([](const APInt &a, const APInt &b) { return a | b; });
      })
      .Case([&](stablehlo::XorOp) -> MaybeElement {
        return ints([](const APInt &a, const APInt &b) { return a ^ b; });
      })
      .Case([&](stablehlo::ShiftLeftOp) { return shift(lhs, rhs, true); })
      .Case([&](stablehlo::ShiftRightLogicalOp) {
        return shift(lhs, rhs, false);
      })
      .Case([&](stablehlo::CompareOp compareOp) -> MaybeElement {
        if (compareOp.getCompareType() == stablehlo::ComparisonType::TOTALORDER)
          return std::nullopt;
        return compare(compareOp, lhs, rhs, isUnsignedInt);
      })
      .Default([](Operation *) -> MaybeElement { return std::nullopt; });
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Returns the elements in row-major order; only one for a splat.
static SmallVector<Element> getElements(DenseElementsAttr attr) {
  auto read = [&](auto values) {
    return attr.isSplat() ? SmallVector<Element>{Element(*values.begin())}
                          : SmallVector<Element>(values.begin(), values.end());
  };
  if (isa<FloatType>(attr.getElementType()))
    return read(attr.getValues<APFloat>());
  return read(attr.getValues<APInt>());
}

static DenseElementsAttr makeTensor(ShapedType type,
                                    ArrayRef<Element> elements) {
  auto make = [&](const auto &kind) {
    using Kind = std::decay_t<decltype(kind)>;
    SmallVector<Kind, 0> values;
    for (const Element &element : elements)
      values.push_back(std::get<Kind>(element));
    return DenseElementsAttr::get(type, values);
  };
  if (isa<FloatType>(type.getElementType()))
    return make(APFloat(0.0f));
  return make(APInt());
}

static bool hasIntOrFloatElements(Type type) {
  return getElementTypeOrSelf(type).isIntOrFloat();
}

namespace {

struct FoldElementwise : RewritePattern {
  FoldElementwise(MLIRContext *context, int64_t maxElements)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context),
        maxElements(maxElements) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    unsigned arity = op->getNumOperands();
    if (!op->hasTrait<OpTrait::Elementwise>() || op->getNumResults() != 1 ||
        arity < 1 || arity > 2)
      return rewriter.notifyMatchFailure(op, "not a unary or binary op");
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!type || !type.hasStaticShape() || !hasIntOrFloatElements(type))
      return rewriter.notifyMatchFailure(op, "not a plain static tensor");
    if (type.getNumElements() == 0)
      return rewriter.notifyMatchFailure(op, "has no element to compute");
    SmallVector<SmallVector<Element>, 2> operands;
    size_t count = 1;
    for (Value operand : op->getOperands()) {
      DenseElementsAttr constant = getConstant(operand);
      if (!constant || !hasIntOrFloatElements(operand.getType()))
        return rewriter.notifyMatchFailure(op, "operand is no constant");
      if (!constant.isSplat() &&
          constant.getNumElements() > getMaxElements(type, maxElements))
        return rewriter.notifyMatchFailure(op, "operand is too large");
      operands.push_back(getElements(constant));
      count = std::max(count, operands.back().size());
    }
    SmallVector<Element, 0> results;
    for (size_t i = 0; i < count; ++i) {
      auto at = [&](unsigned k) -> const Element & {
        return operands[k][operands[k].size() == 1 ? 0 : i];
      };
      MaybeElement result = arity == 1 ? evaluateUnary(op, at(0))
                                       : evaluateBinary(op, at(0), at(1));
      if (!result)
        return rewriter.notifyMatchFailure(op, "is not exactly computable");
      results.push_back(*result);
    }
    rewriter.replaceOpWithNewOp<stablehlo::ConstantOp>(
        op, makeTensor(type, results));
    return success();
  }

  int64_t maxElements;
};

/// Folds values without elements to constants, such as the indices of a scatter
/// that overwrites its whole operand.
struct FoldEmpty : RewritePattern {
  explicit FoldEmpty(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (op->getNumResults() != 1 || op->hasTrait<OpTrait::ConstantLike>() ||
        !isMemoryEffectFree(op))
      return rewriter.notifyMatchFailure(op, "does not only compute a value");
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!type || !type.hasStaticShape() || type.getNumElements() != 0 ||
        !hasIntOrFloatElements(type))
      return rewriter.notifyMatchFailure(op, "has elements");
    rewriter.replaceOpWithNewOp<stablehlo::ConstantOp>(op,
                                                       makeTensor(type, {}));
    return success();
  }
};

} // namespace

/// Folds clamps of an integer, as in the index of a branch.
static OpFoldResult foldClamp(stablehlo::ClampOp op, const FoldOptions &) {
  Type element = getElementTypeOrSelf(op.getType());
  SmallVector<Element> values;
  for (Value operand : op->getOperands()) {
    DenseElementsAttr constant = getConstant(operand);
    if (!constant || !constant.isSplat() || !isa<IntegerType>(element))
      return {};
    values.push_back(Element(constant.getSplatValue<APInt>()));
  }
  bool isUnsignedInt = stablehlo::hasUnsignedElements(element);
  MaybeElement result =
      extreme(values[1], values[0], /*takeMax=*/true, isUnsignedInt);
  result = extreme(*result, values[2], /*takeMax=*/false, isUnsignedInt);
  return makeTensor(op.getType(), *result);
}

void scalify::import::populateConstantFolds(RewritePatternSet &patterns,
                                            const FoldOptions &options) {
  patterns.add<FoldElementwise>(patterns.getContext(), options.maxElements);
  addFold(patterns, options, foldClamp);
  patterns.add<FoldEmpty>(patterns.getContext());
}
