//===- Rounding.cpp - Stochastic rounding as integer arithmetic -----------===//
//
// Works on the magnitude's F32 bits: adds random bits below the format's last
// place and truncates there, which carries with the probability of the
// truncated fraction. Below the smallest normal number the last place is fixed:
// the value is expressed in units of it, and the fraction is compared with 31
// random bits. Nothing is divided by the scale, a power of two, so that no bit
// is lost.
//
//===----------------------------------------------------------------------===//

#include "scalify/Precision/Rounding.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/APFloat.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using stablehlo::ComparisonDirection;

static constexpr int32_t kSignBit = INT32_MIN, kInfinity = 0x7f800000;

namespace {
/// The properties of a format on which rounding depends.
struct Format {
  /// Bits of the mantissa after the point.
  int mantissa;
  /// log2 of the smallest normal number.
  int smallest;

  static Format get(FloatType type) {
    const llvm::fltSemantics &semantics = type.getFloatSemantics();
    return {static_cast<int>(APFloat::semanticsPrecision(semantics)) - 1,
            APFloat::semanticsMinExponent(semantics)};
  }
  /// False for formats with F32's exponents, whose subnormal numbers are below
  /// F32's smallest normal number as well.
  bool hasOwnSubnormals() const { return smallest > -126; }
};

/// Expands one cast into arithmetic in the same phase.
class RoundingExpander {
public:
  explicit RoundingExpander(QuantizeOp cast)
      : cast(cast), builder(cast), loc(cast.getLoc()),
        type(mlir::cast<RankedTensorType>(cast.getType())
                 .clone(builder.getI32Type())),
        format(Format::get(
            mlir::cast<FloatType>(getElementTypeOrSelf(cast.getType())))) {}
  void run();

private:
  template <typename Op, typename... Args> Value create(Args &&...args) {
    auto op = Op::create(builder, loc, std::forward<Args>(args)...);
    copyPhase(cast, op);
    return op->getResult(0);
  }
  template <typename T> Value constant(RankedTensorType type, T value) {
    return create<stablehlo::ConstantOp>(
        mlir::cast<ElementsAttr>(DenseElementsAttr::get(type, value)));
  }
  /// Builds a constant that kernels read from memory, so that kernels that
  /// differ in it alone share code.
  Value inMemory(ElementsAttr value);
  template <typename T> Value scalar(T value, Type element) {
    return constant(RankedTensorType::get({}, element), value);
  }
  Value word(int32_t value) { return constant(type, value); }
  Value spread(Value scalar) {
    Type element = getElementTypeOrSelf(scalar.getType());
    return create<stablehlo::BroadcastInDimOp>(type.clone(element), scalar,
                                               ArrayRef<int64_t>{});
  }
  Value timesPowerOfTwo(Value scalar, int exponent) {
    return create<stablehlo::MulOp>(
        scalar, this->scalar(std::ldexp(1.0f, exponent), builder.getF32Type()));
  }
  Value bitcast(Value value, Type element) {
    auto shaped = mlir::cast<RankedTensorType>(value.getType());
    return create<stablehlo::BitcastConvertOp>(shaped.clone(element), value);
  }
  Value compare(Value a, Value b, ComparisonDirection direction) {
    return create<stablehlo::CompareOp>(a, b, direction);
  }
  Value buildRandomBits();
  Value roundNormal(Value magnitude, Value random);
  Value roundSubnormal(Value magnitude, Value random, Value least,
                       Value quantum);
  Value round(Value magnitude, Value random);

  QuantizeOp cast;
  OpBuilder builder;
  Location loc;
  RankedTensorType type;
  Format format;
};
} // namespace

Value RoundingExpander::inMemory(ElementsAttr value) {
  Value result = create<stablehlo::ConstantOp>(value);
  result.getDefiningOp()->setAttr(kInMemoryAttr, builder.getUnitAttr());
  return result;
}

Value RoundingExpander::buildRandomBits() {
  int64_t stream = *cast.getStream();
  auto scalarType = RankedTensorType::get({}, builder.getI32Type());
  Value high = inMemory(mlir::cast<ElementsAttr>(
      DenseElementsAttr::get(scalarType, static_cast<int32_t>(stream >> 1))));
  return create<RandomBitsOp>(type, static_cast<uint64_t>(stream & 1),
                              cast.getCounter(), high, cast.getFirst(),
                              cast.getWholeAttr());
}

Value RoundingExpander::roundNormal(Value magnitude, Value random) {
  int below = 23 - format.mantissa;
  Value bits = create<stablehlo::ShiftRightLogicalOp>(random, word(32 - below));
  Value sum = create<stablehlo::AddOp>(magnitude, bits);
  Value kept = word(-(1 << below));
  // A carry must not make an infinity of a number, which saturates in the cast.
  // BF16 has F32's exponents: of the largest word, the cast rounds up the bits
  // that BF16 has not, and counts it.
  auto limit = [&](Value x) {
    return create<stablehlo::MinOp>(x, word(kInfinity - 1));
  };
  return format.hasOwnSubnormals() ? create<stablehlo::AndOp>(limit(sum), kept)
                                   : limit(create<stablehlo::AndOp>(sum, kept));
}

/// `least` is the smallest normal number times the scale, `quantum` the
/// smallest positive number times the scale; both have rank 0.
Value RoundingExpander::roundSubnormal(Value magnitude, Value random,
                                       Value least, Value quantum) {
  Type f32 = builder.getF32Type(), i32 = builder.getI32Type();
  // Beyond `least` the other result is used; the limit keeps this one finite.
  Value limited = create<stablehlo::MinOp>(magnitude, spread(least));
  Value inverse = create<stablehlo::DivOp>(scalar(1.0f, f32), quantum);
  Value count =
      create<stablehlo::MulOp>(bitcast(limited, f32), spread(inverse));
  Value whole = create<stablehlo::FloorOp>(count);
  Value fraction = create<stablehlo::SubtractOp>(count, whole);
  Value chance = create<stablehlo::ConvertOp>(
      create<stablehlo::MulOp>(fraction, constant(type.clone(f32), 0x1p31f)),
      i32);
  Value bits = create<stablehlo::ShiftRightLogicalOp>(random, word(1));
  Value next = create<stablehlo::AddOp>(whole, constant(type.clone(f32), 1.0f));
  Value rounded = create<stablehlo::SelectOp>(
      compare(bits, chance, ComparisonDirection::LT), next, whole);
  return bitcast(create<stablehlo::MulOp>(rounded, spread(quantum)), i32);
}

Value RoundingExpander::round(Value magnitude, Value random) {
  Value normal = roundNormal(magnitude, random);
  if (!format.hasOwnSubnormals())
    return normal;
  Type i32 = builder.getI32Type();
  Value scale = cast.getScale();
  ElementsAttr known;
  if (matchPattern(scale, m_Constant(&known)))
    scale = inMemory(known);
  Value quantum = timesPowerOfTwo(scale, format.smallest - format.mantissa);
  Value least = bitcast(timesPowerOfTwo(scale, format.smallest), i32);
  Value subnormal = roundSubnormal(magnitude, random, least, quantum);
  Value isSmall = compare(magnitude, spread(least), ComparisonDirection::LT);
  Value rounded = create<stablehlo::SelectOp>(isSmall, subnormal, normal);
  // Flushed values become a quarter of the smallest number, which the cast
  // rounds to zero and counts.
  Value tiny = spread(bitcast(timesPowerOfTwo(quantum, -2), i32));
  return create<stablehlo::MaxOp>(rounded,
                                  create<stablehlo::MinOp>(magnitude, tiny));
}

void RoundingExpander::run() {
  Value value = cast.getValue();
  Type f32 = builder.getF32Type(), i32 = builder.getI32Type();
  if (getElementTypeOrSelf(value.getType()) != f32)
    value = create<stablehlo::ConvertOp>(value, f32);
  Value bits = bitcast(value, i32);
  Value sign = create<stablehlo::AndOp>(bits, word(kSignBit));
  Value magnitude = create<stablehlo::AndOp>(bits, word(~kSignBit));
  Value rounded = round(magnitude, buildRandomBits());
  // A carry must not turn NaN into a number.
  Value isFinite = compare(magnitude, word(kInfinity), ComparisonDirection::LT);
  rounded = create<stablehlo::SelectOp>(isFinite, rounded, magnitude);
  Value result = bitcast(create<stablehlo::OrOp>(rounded, sign), f32);
  cast.getValueMutable().assign(result);
}

void scalify::expandRounding(QuantizeOp cast) {
  if (!cast.isStochastic())
    return;
  if (cast.getCounter())
    RoundingExpander(cast).run();
  cast.getCounterMutable().clear();
  cast.getFirstMutable().clear();
  cast.removeStreamAttr();
  cast.removeWholeAttr();
  cast.setRounding(RoundingMode::Nearest);
}
