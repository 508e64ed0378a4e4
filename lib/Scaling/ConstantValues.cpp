//===- ConstantValues.cpp - Values built from constants alone -------------===//
//
// Rules treat elements as independent. Positions, and values computed from
// them, are not: the steps between samples on a ray are differences of
// neighbours, far smaller than the samples, and never negative. The elements of
// a value that depends on no argument can be computed, and with them its
// moments, bound and sign. The result is still an estimate, in f64 and for the
// scale alone: the program does not change.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/ConstantValues.h"

#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Scaling/ScaleAnalysis.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

using Elements = std::vector<double>;
using MaybeElements = std::optional<Elements>;

// Tables of positions have thousands of elements; larger ones cost time.
static constexpr int64_t kMaxElements = 1 << 14;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Calls `visit` with each index of the shape, the last dimension fastest.
static void forEachIndex(ArrayRef<int64_t> shape,
                         function_ref<void(ArrayRef<int64_t>)> visit) {
  SmallVector<int64_t> index(shape.size(), 0);
  int64_t count = ShapedType::getNumElements(shape);
  for (int64_t i = 0; i < count; ++i) {
    visit(index);
    for (int64_t dim = static_cast<int64_t>(shape.size()) - 1; dim >= 0; --dim)
      if (++index[dim] < shape[dim])
        break;
      else
        index[dim] = 0;
  }
}

static size_t flatten(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t flat = 0;
  for (auto [at, size] : llvm::zip(index, shape))
    flat = flat * size + at;
  return static_cast<size_t>(flat);
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

static MaybeElements elementsOf(ConstantOp op) {
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!dense)
    return std::nullopt;
  Elements found;
  if (isa<FloatType>(dense.getElementType()))
    for (const APFloat &x : dense.getValues<APFloat>())
      found.push_back(x.convertToDouble());
  else if (isa<IntegerType>(dense.getElementType()) &&
           !dense.getElementType().isInteger(1))
    for (const APInt &x : dense.getValues<APInt>())
      found.push_back(
          x.roundToDouble(!hasUnsignedElements(dense.getElementType())));
  else
    return std::nullopt;
  return found;
}

static Elements elementsOf(IotaOp op) {
  Elements found;
  forEachIndex(shapeOf(op.getResult()), [&](ArrayRef<int64_t> index) {
    found.push_back(static_cast<double>(index[op.getIotaDimension()]));
  });
  return found;
}

//===----------------------------------------------------------------------===//
// Arithmetic and functions
//===----------------------------------------------------------------------===//

using Function = double (*)(double, double);

/// Returns the function that the op applies to each element. The second operand
/// of a unary op is 0.
static Function getFunction(Operation *op) {
  return llvm::TypeSwitch<Operation *, Function>(op)
      .Case([](AddOp) { return [](double a, double b) { return a + b; }; })
      .Case([](SubtractOp) { return [](double a, double b) { return a - b; }; })
      .Case([](MulOp) { return [](double a, double b) { return a * b; }; })
      .Case([](DivOp) { return [](double a, double b) { return a / b; }; })
      .Case([](PowOp) {
        return [](double a, double b) { return std::pow(a, b); };
      })
      .Case([](MaxOp) {
        return [](double a, double b) { return std::max(a, b); };
      })
      .Case([](MinOp) {
        return [](double a, double b) { return std::min(a, b); };
      })
      .Case([](NegOp) { return [](double a, double) { return -a; }; })
      .Case([](AbsOp) { return [](double a, double) { return std::fabs(a); }; })
      .Case([](ExpOp) { return [](double a, double) { return std::exp(a); }; })
      .Case([](LogOp) { return [](double a, double) { return std::log(a); }; })
      .Case(
          [](SqrtOp) { return [](double a, double) { return std::sqrt(a); }; })
      .Case([](SineOp) { return [](double a, double) { return std::sin(a); }; })
      .Case(
          [](CosineOp) { return [](double a, double) { return std::cos(a); }; })
      .Default(Function(nullptr));
}

static MaybeElements apply(Function function, const Elements &a,
                           const Elements *b) {
  Elements found;
  found.reserve(a.size());
  for (size_t i = 0; i < a.size(); ++i)
    found.push_back(function(a[i], b ? (*b)[i] : 0.0));
  return found;
}

//===----------------------------------------------------------------------===//
// Moves
//===----------------------------------------------------------------------===//

/// Moves elements: for each index of the result, `place` sets the index in
/// `source`.
static Elements
move(const Elements &source, Value from, Value to,
     function_ref<void(ArrayRef<int64_t>, MutableArrayRef<int64_t>)> place) {
  ArrayRef<int64_t> shape = shapeOf(from);
  SmallVector<int64_t> at(shape.size(), 0);
  Elements found;
  forEachIndex(shapeOf(to), [&](ArrayRef<int64_t> index) {
    place(index, at);
    found.push_back(source[flatten(at, shape)]);
  });
  return found;
}

static MaybeElements moved(Operation *op, const Elements &source) {
  Value from = op->getOperand(0), to = op->getResult(0);
  if (isa<ReshapeOp>(op))
    return source;
  if (auto broadcast = dyn_cast<BroadcastInDimOp>(op))
    return move(source, from, to, [&](ArrayRef<int64_t> index, auto at) {
      for (auto [i, dim] : llvm::enumerate(broadcast.getBroadcastDimensions()))
        at[i] = shapeOf(from)[i] == 1 ? 0 : index[dim];
    });
  if (auto slice = dyn_cast<SliceOp>(op))
    return move(source, from, to, [&](ArrayRef<int64_t> index, auto at) {
      for (size_t i = 0; i < index.size(); ++i)
        at[i] = slice.getStartIndices()[i] + index[i] * slice.getStrides()[i];
    });
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return move(source, from, to, [&](ArrayRef<int64_t> index, auto at) {
      for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
        at[dim] = index[i];
    });
  return std::nullopt;
}

MaybeElements ConstantValues::join(ConcatenateOp op) const {
  SmallVector<Elements> parts;
  for (Value operand : op->getOperands()) {
    MaybeElements part = lookup(operand);
    if (!part)
      return std::nullopt;
    parts.push_back(std::move(*part));
  }
  Elements found;
  forEachIndex(shapeOf(op.getResult()), [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> at(index);
    unsigned part = 0;
    while (at[op.getDimension()] >=
           shapeOf(op->getOperand(part))[op.getDimension()])
      at[op.getDimension()] -=
          shapeOf(op->getOperand(part++))[op.getDimension()];
    found.push_back(parts[part][flatten(at, shapeOf(op->getOperand(part)))]);
  });
  return found;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static bool isNumbers(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || type.getNumElements() > kMaxElements ||
      type.getNumElements() == 0)
    return false;
  Type element = type.getElementType();
  return isa<FloatType>(element) ||
         (element.isSignlessInteger() && !element.isInteger(1));
}

MaybeElements ConstantValues::lookup(Value value) const {
  auto it = known.find(value);
  if (it != known.end())
    return it->second;
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant && isNumbers(value) ? elementsOf(constant) : std::nullopt;
}

MaybeElements ConstantValues::evaluate(Operation &op) const {
  if (auto iota = dyn_cast<IotaOp>(op))
    return elementsOf(iota);
  if (auto concatenate = dyn_cast<ConcatenateOp>(op))
    return join(concatenate);
  // Integers wrap and divide differently: evaluate only floating-point ops.
  bool isFloat = isFloatTensor(op.getResult(0).getType());
  Function function = isFloat ? getFunction(&op) : nullptr;
  bool moves = isa<ReshapeOp, BroadcastInDimOp, SliceOp, TransposeOp>(op);
  bool converts = isFloat && isa<ConvertOp>(op);
  if (!function && !moves && !converts)
    return std::nullopt;
  MaybeElements first = lookup(op.getOperand(0));
  if (!first || converts)
    return first;
  if (moves)
    return moved(&op, *first);
  if (op.getNumOperands() == 1)
    return apply(function, *first, nullptr);
  MaybeElements second = lookup(op.getOperand(1));
  return second ? apply(function, *first, &*second) : std::nullopt;
}

static std::optional<ScaleFacts> factsOf(const Elements &elements) {
  double sum = 0, squares = 0, bound = 0, least = 0, most = 0;
  for (double x : elements) {
    sum += x;
    squares += x * x;
    bound = std::max(bound, std::fabs(x));
    least = std::min(least, x);
    most = std::max(most, x);
  }
  if (bound == 0 || !std::isfinite(squares))
    return std::nullopt;
  double n = static_cast<double>(elements.size()), mean = sum / n;
  ScaleFacts facts = ScaleFacts::moments(mean, squares / n - mean * mean);
  facts.bound = bound;
  facts.sign = least >= 0  ? Sign::NonNegative
               : most <= 0 ? Sign::NonPositive
                           : Sign::Any;
  facts.rule = "made of constants: evaluated";
  return facts;
}

std::optional<ScaleFacts> ConstantValues::infer(Operation &op) {
  if (op.getNumResults() != 1 || isa<ConstantOp>(op) ||
      !isNumbers(op.getResult(0)))
    return std::nullopt;
  Value result = op.getResult(0);
  if (!known.contains(result)) {
    MaybeElements elements = evaluate(op);
    if (!elements)
      return std::nullopt;
    known[result] = std::move(*elements);
  }
  return isFloatTensor(result.getType()) ? factsOf(known[result])
                                         : std::nullopt;
}
