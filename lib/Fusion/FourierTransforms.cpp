//===- FourierTransforms.cpp - Transforms as products ---------------------===//
//
// A transform of a short length n is a product with the n x n matrix of the
// n-th roots of unity. For a longer n = p q the n elements are p rows of q:
// transforms of the columns, products with roots of unity, and transforms of
// the rows, which cost p + q products for each element instead of p q. The
// result is then in the transposed order.
//
//===----------------------------------------------------------------------===//

#include "FourierTransforms.h"

#include "scalify/Dialect/StableHLO/Values.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// Up to this length a transform is one product.
static constexpr int64_t kShort = 128;
/// The longest length without factors that is still one product.
static constexpr int64_t kLongest = 1024;

/// Returns the factor of a length that is next to its root from below, 1 for a
/// prime.
static int64_t getFactor(int64_t length) {
  int64_t factor = 1;
  for (int64_t next = 2; next * next <= length; ++next)
    if (length % next == 0)
      factor = next;
  return factor;
}

static bool hasTransformOf(int64_t length) {
  if (length <= kShort)
    return true;
  int64_t factor = getFactor(length);
  return factor == 1
             ? length <= kLongest
             : hasTransformOf(factor) && hasTransformOf(length / factor);
}

bool scalify::hasTransform(FftOp op) {
  return !op.getFftLength().empty() &&
         llvm::all_of(op.getFftLength(), [](int64_t length) {
           return length >= 1 && hasTransformOf(length);
         });
}

namespace {
class Transform {
public:
  Transform(ImplicitLocOpBuilder &b, bool isInverse)
      : b(b), sign(isInverse ? 1 : -1), isInverse(isInverse) {}

  /// Transforms along a dimension.
  ComplexParts along(ComplexParts x, int64_t dim);
  /// Transforms along the last dimension, to `columns` results.
  ComplexParts onLast(ComplexParts x, double scale, int64_t columns);
  /// The real inverse of half a spectrum, along the last dimension.
  Value realInverse(ComplexParts half, int64_t length);

private:
  struct Waves {
    Value cos, sin;
  };
  /// Returns weight(i) * cos and sin of sign * 2 pi i j / length.
  Waves makeWaves(Type element, int64_t rows, int64_t columns, int64_t length,
                  llvm::function_ref<double(int64_t)> weight);
  ComplexParts multiply(ComplexParts x, const Waves &waves);
  ComplexParts inTwoSteps(ComplexParts x, double scale, int64_t factor);
  Value swap(Value x, int64_t one, int64_t other);
  ComplexParts swap(ComplexParts x, int64_t one, int64_t other) {
    return {swap(x.re, one, other), x.im ? swap(x.im, one, other) : Value()};
  }
  Value reshape(Value x, ArrayRef<int64_t> shape) {
    return ReshapeOp::create(b, x, shape);
  }
  Value product(Value x, Value matrix);
  Value add(Value x, Value y) { return AddOp::create(b, x, y); }
  Value subtract(Value x, Value y) { return SubtractOp::create(b, x, y); }
  Value times(Value x, Value y) { return MulOp::create(b, x, y); }

  ImplicitLocOpBuilder &b;
  double sign;
  bool isInverse;
};
} // namespace

/// Returns cos and sin of a part of a turn, exact for quarters.
static std::pair<double, double> getWave(int64_t part, int64_t length) {
  if (4 * part % length == 0) {
    const int cosines[] = {1, 0, -1, 0};
    int64_t quarter = 4 * part / length;
    return {cosines[quarter], cosines[(quarter + 3) % 4]};
  }
  double angle = 2 * std::acos(-1.0) * static_cast<double>(part) /
                 static_cast<double>(length);
  return {std::cos(angle), std::sin(angle)};
}

static int64_t lastOf(Value x) { return typeOf(x).getShape().back(); }

Transform::Waves
Transform::makeWaves(Type element, int64_t rows, int64_t columns,
                     int64_t length,
                     llvm::function_ref<double(int64_t)> weight) {
  SmallVector<Attribute> cosines, sines;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      // Reduced first, so that the angle is exact to a rounding.
      auto [cos, sin] = getWave(i * j % length, length);
      cosines.push_back(FloatAttr::get(element, weight(i) * cos));
      sines.push_back(FloatAttr::get(element, weight(i) * sign * sin));
    }
  auto type = RankedTensorType::get({rows, columns}, element);
  return {buildConstant(b, type, ArrayRef<Attribute>(cosines)),
          buildConstant(b, type, ArrayRef<Attribute>(sines))};
}

Value Transform::product(Value x, Value matrix) {
  RankedTensorType type = typeOf(x);
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = lastOf(matrix);
  auto dims = DotDimensionNumbersAttr::get(b.getContext(), {}, {},
                                           {type.getRank() - 1}, {0});
  return DotGeneralOp::create(b, type.clone(shape), x, matrix, dims,
                              /*precision=*/nullptr, /*algorithm=*/nullptr);
}

ComplexParts Transform::multiply(ComplexParts x, const Waves &waves) {
  if (!x.im)
    return {product(x.re, waves.cos), product(x.re, waves.sin)};
  return {subtract(product(x.re, waves.cos), product(x.im, waves.sin)),
          add(product(x.re, waves.sin), product(x.im, waves.cos))};
}

Value Transform::swap(Value x, int64_t one, int64_t other) {
  if (one == other)
    return x;
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(x).getRank()));
  std::swap(order[one], order[other]);
  return TransposeOp::create(b, x, order);
}

ComplexParts Transform::inTwoSteps(ComplexParts x, double scale,
                                   int64_t factor) {
  RankedTensorType type = typeOf(x.re);
  const int64_t length = lastOf(x.re), rest = length / factor;
  const int64_t rank = type.getRank();
  SmallVector<int64_t> split(type.getShape().drop_back());
  split.append({factor, rest});
  ComplexParts rows = {reshape(x.re, split),
                       x.im ? reshape(x.im, split) : Value()};
  // [..., j of rest, k of factor].
  rows = onLast(swap(rows, rank - 1, rank), scale, factor);
  Waves waves = makeWaves(type.getElementType(), rest, factor, length,
                          [](int64_t) { return 1.0; });
  auto spread = [&](Value wave) -> Value {
    return BroadcastInDimOp::create(b, typeOf(rows.re), wave,
                                    ArrayRef<int64_t>{rank - 1, rank});
  };
  Value cos = spread(waves.cos), sin = spread(waves.sin);
  ComplexParts turned = {subtract(times(rows.re, cos), times(rows.im, sin)),
                         add(times(rows.re, sin), times(rows.im, cos))};
  ComplexParts done = onLast(swap(turned, rank - 1, rank), 1, rest);
  done = swap(done, rank - 1, rank);
  return {reshape(done.re, type.getShape()), reshape(done.im, type.getShape())};
}

ComplexParts Transform::onLast(ComplexParts x, double scale, int64_t columns) {
  const int64_t length = lastOf(x.re);
  const int64_t factor = length > kShort ? getFactor(length) : 1;
  if (factor == 1)
    return multiply(x, makeWaves(typeOf(x.re).getElementType(), length, columns,
                                 length, [&](int64_t) { return scale; }));
  ComplexParts whole = inTwoSteps(x, scale, factor);
  if (columns == length)
    return whole;
  auto slice = [&](Value value) -> Value {
    return SliceOp::create(b, value, typeOf(value).getRank() - 1, 0, columns);
  };
  return {slice(whole.re), slice(whole.im)};
}

ComplexParts Transform::along(ComplexParts x, int64_t dim) {
  const int64_t last = typeOf(x.re).getRank() - 1;
  const int64_t length = typeOf(x.re).getDimSize(dim);
  double scale = isInverse ? 1 / static_cast<double>(length) : 1;
  return swap(onLast(swap(x, dim, last), scale, length), dim, last);
}

Value Transform::realInverse(ComplexParts half, int64_t length) {
  RankedTensorType type = typeOf(half.re);
  const int64_t rows = lastOf(half.re);
  // Frequencies other than the first and the middle stand for their conjugates
  // too. The imaginary parts of those two have no effect.
  auto weight = [&](int64_t row) {
    return (row == 0 || 2 * row == length ? 1.0 : 2.0) /
           static_cast<double>(length);
  };
  if (length <= kShort || getFactor(length) == 1) {
    Waves waves =
        makeWaves(type.getElementType(), rows, length, length, weight);
    return subtract(product(half.re, waves.cos), product(half.im, waves.sin));
  }
  const int64_t missing = length - rows;
  auto mirror = [&](Value value, bool isNegated) -> Value {
    Value part = SliceOp::create(b, value, type.getRank() - 1, 1, 1 + missing);
    Value turned =
        ReverseOp::create(b, part, ArrayRef<int64_t>{type.getRank() - 1});
    if (isNegated)
      turned = NegOp::create(b, turned);
    return ConcatenateOp::create(b, ValueRange{value, turned},
                                 type.getRank() - 1);
  };
  double scale = 1 / static_cast<double>(length);
  return onLast({mirror(half.re, false), mirror(half.im, true)}, scale, length)
      .re;
}

ComplexParts scalify::buildTransform(ImplicitLocOpBuilder &b, FftOp op,
                                     ComplexParts operand) {
  FftType kind = op.getFftType();
  bool isInverse = kind == FftType::IFFT || kind == FftType::IRFFT;
  Transform transform(b, isInverse);
  const int64_t count = static_cast<int64_t>(op.getFftLength().size());
  const int64_t rank = typeOf(operand.re).getRank();
  const int64_t last = op.getFftLength().back();
  ComplexParts x = operand;
  if (kind == FftType::RFFT)
    x = transform.onLast(x, 1, last / 2 + 1);
  int64_t end =
      kind == FftType::RFFT || kind == FftType::IRFFT ? rank - 1 : rank;
  for (int64_t dim = rank - count; dim < end; ++dim)
    x = transform.along(x, dim);
  if (kind == FftType::IRFFT)
    return {transform.realInverse(x, last), Value()};
  return x;
}
