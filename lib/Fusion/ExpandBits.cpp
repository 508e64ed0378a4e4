//===- ExpandBits.cpp - Random bits and bitcasts by integer ops -----------===//
//
// The generators of random bits are those of Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3" (2011). The state's first word is the key, the
// others are the counter. Words are arranged into a tensor as XLA does, so that
// a program has XLA's bits. A bitcast between widths splits or combines
// elements by shifts.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"

#include "scalify/Dialect/Scalify/Threefry.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDBITS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using stablehlo::RngBitGeneratorOp;

namespace {
/// Integers of one shape, of 32 and of 64 bits.
struct Words {
  ImplicitLocOpBuilder &b;
  SmallVector<int64_t> shape;

  RankedTensorType type(unsigned bits) const {
    return RankedTensorType::get(shape, b.getIntegerType(bits, false));
  }
  Value constant(uint64_t value, unsigned bits = 32) {
    return stablehlo::buildConstant(b, type(bits), APInt(bits, value));
  }
  Value add(Value x, Value y) { return stablehlo::AddOp::create(b, x, y); }
  Value bxor(Value x, Value y) { return stablehlo::XorOp::create(b, x, y); }
  Value convert(Value x, unsigned bits) {
    return stablehlo::ConvertOp::create(b, type(bits), x);
  }
  Value shiftRight(Value x, unsigned count) {
    Value by = constant(count, typeOf(x).getElementTypeBitWidth());
    return stablehlo::ShiftRightLogicalOp::create(b, x, by);
  }
  Value rotateLeft(Value x, int count) {
    Value up = stablehlo::ShiftLeftOp::create(b, x, constant(count));
    return stablehlo::OrOp::create(b, up, shiftRight(x, 32 - count));
  }
  Value low(Value x) { return convert(x, 32); }
  Value high(Value x) { return convert(shiftRight(x, 32), 32); }
  Value join(Value low, Value high) {
    Value up =
        stablehlo::ShiftLeftOp::create(b, convert(high, 64), constant(32, 64));
    return stablehlo::OrOp::create(b, up, convert(low, 64));
  }
  /// Broadcasts a scalar to all elements.
  Value spread(Value x) { return spreadOver(b, x, typeOf(x).clone(shape)); }
  Value iota() {
    RankedTensorType flat = RankedTensorType::get(
        {ShapedType::getNumElements(shape)}, b.getIntegerType(64, false));
    Value places = stablehlo::IotaOp::create(b, flat, 0);
    return stablehlo::ReshapeOp::create(b, type(64), places);
  }
};

/// The results of a generator: bits of the requested shape, 32 or 64 per
/// element, and the counter after them.
struct Generated {
  Value bits;
  SmallVector<Value> counter;
};

class Generator {
public:
  Generator(ImplicitLocOpBuilder &b, RngBitGeneratorOp op)
      : b(b), shape(typeOf(op.getOutput()).getShape()),
        isWide(typeOf(op.getOutput()).getElementTypeBitWidth() == 64) {
    for (int64_t i = 0; i < typeOf(op.getInitialState()).getNumElements(); ++i)
      state.push_back(word(op.getInitialState(), i));
  }
  Generated threefry();
  Generated philox();
  SmallVector<Value> results(RngBitGeneratorOp op, const Generated &made);

private:
  Value word(Value state, int64_t i);
  Value carry(Value sum, Value added, Value next, Words &words);
  Value layOut(ArrayRef<Value> columns, ArrayRef<int64_t> padded, int64_t dim);

  ImplicitLocOpBuilder &b;
  ArrayRef<int64_t> shape;
  bool isWide;
  SmallVector<Value> state;
};
} // namespace

Value Generator::word(Value state, int64_t i) {
  Value part = stablehlo::SliceOp::create(b, state, 0, i, i + 1);
  return stablehlo::ReshapeOp::create(
      b, typeOf(state).clone(ArrayRef<int64_t>()), part);
}

/// Returns the upper word `next` of a counter plus the carry of `sum`, the
/// lower word plus `added`.
Value Generator::carry(Value sum, Value added, Value next, Words &words) {
  Value isOver = stablehlo::CompareOp::create(
      b, sum, added, stablehlo::ComparisonDirection::LT);
  return words.add(next, words.convert(isOver, 64));
}

/// Interleaves columns along a new dimension after `dim`, reshaped to `padded`,
/// a shape of which the result takes the start.
Value Generator::layOut(ArrayRef<Value> columns, ArrayRef<int64_t> padded,
                        int64_t dim) {
  SmallVector<Value> parts;
  SmallVector<int64_t> apart(typeOf(columns[0]).getShape());
  apart.insert(apart.begin() + dim + 1, 1);
  for (Value column : columns)
    parts.push_back(stablehlo::ReshapeOp::create(b, column, apart));
  Value all = stablehlo::ConcatenateOp::create(b, parts, dim + 1);
  return stablehlo::ReshapeOp::create(b, all, padded);
}

/// With 32 bits, the two words of a block are neighbours along the first
/// dimension of even size, or else the longest; with 64, they are one element.
Generated Generator::threefry() {
  SmallVector<int64_t> padded(shape);
  if (padded.empty())
    padded.push_back(1);
  auto even = llvm::find_if(padded, [](int64_t size) { return size % 2 == 0; });
  auto split = even == padded.end() ? llvm::max_element(padded) : even;
  int64_t dim = split - padded.begin();
  SmallVector<int64_t> kept = padded, half = padded;
  half[dim] = llvm::divideCeil(half[dim], 2);
  padded[dim] = 2 * half[dim];
  Words words{b, isWide ? kept : half}, scalars{b, {}};
  Value place = words.add(words.spread(state[1]), words.iota());
  std::array<Value, 2> key = {words.spread(scalars.low(state[0])),
                              words.spread(scalars.high(state[0]))};
  std::array<Value, 2> block = scalify::threefry<Value>(
      words, key, {words.low(place), words.high(place)});
  int64_t blocks = ShapedType::getNumElements(words.shape);
  Value bits =
      isWide ? words.join(block[0], block[1])
             : stablehlo::SliceOp::create(b, layOut(block, padded, dim), kept);
  return {stablehlo::ReshapeOp::create(b, bits, shape),
          {scalars.add(state[1], scalars.constant(blocks, 64))}};
}

/// Philox-4x32 with 10 rounds.
static std::array<Value, 4> philoxBlock(Words &words, std::array<Value, 2> key,
                                        std::array<Value, 4> x) {
  for (int round = 0; round < 10; ++round) {
    auto times = [&](Value word, uint64_t factor) -> Value {
      return stablehlo::MulOp::create(words.b, words.convert(word, 64),
                                      words.constant(factor, 64));
    };
    Value p = times(x[0], 0xd2511f53), q = times(x[2], 0xcd9e8d57);
    x = {words.bxor(words.bxor(words.high(q), x[1]), key[0]), words.low(q),
         words.bxor(words.bxor(words.high(p), x[3]), key[1]), words.low(p)};
    key = {words.add(key[0], words.constant(0x9e3779b9)),
           words.add(key[1], words.constant(0xbb67ae85))};
  }
  return x;
}

/// The counter has 128 bits; in a state of two words the key is its upper word.
Generated Generator::philox() {
  int64_t elements = ShapedType::getNumElements(shape);
  int64_t blocks = llvm::divideCeil(elements, isWide ? 2 : 4);
  Words words{b, {blocks}}, scalars{b, {}};
  bool hasUpper = state.size() > 2;
  Value upper = hasUpper ? state[2] : state[0];
  Value first = words.spread(state[1]);
  Value place = words.add(first, words.iota());
  Value above = carry(place, first, words.spread(upper), words);
  std::array<Value, 2> key = {words.spread(scalars.low(state[0])),
                              words.spread(scalars.high(state[0]))};
  std::array<Value, 4> block =
      philoxBlock(words, key,
                  {words.low(place), words.high(place), words.low(above),
                   words.high(above)});
  SmallVector<Value> columns(block.begin(), block.end());
  if (isWide)
    columns = {words.join(block[0], block[1]), words.join(block[2], block[3])};
  int64_t padded = blocks * static_cast<int64_t>(columns.size());
  Value bits =
      stablehlo::SliceOp::create(b, layOut(columns, {padded}, 0), {elements});
  Value next = scalars.add(state[1], scalars.constant(blocks, 64));
  SmallVector<Value> counter{next};
  if (hasUpper)
    counter.push_back(carry(next, state[1], upper, scalars));
  return {stablehlo::ReshapeOp::create(b, bits, shape), counter};
}

SmallVector<Value> Generator::results(RngBitGeneratorOp op,
                                      const Generated &made) {
  SmallVector<Value> words;
  for (Value word :
       llvm::concat<const Value>(ArrayRef(state).take_front(), made.counter))
    words.push_back(stablehlo::ReshapeOp::create(b, word, {1}));
  Value next = stablehlo::ConcatenateOp::create(b, typeOf(op.getOutputState()),
                                                words, 0);
  RankedTensorType type = typeOf(op.getOutput());
  Value bits = made.bits;
  if (type != bits.getType())
    bits = stablehlo::ConvertOp::create(b, type, bits);
  return {next, bits};
}

static FailureOr<SmallVector<Value>> expandGenerator(ImplicitLocOpBuilder &b,
                                                     Operation *op) {
  auto random = cast<RngBitGeneratorOp>(op);
  RankedTensorType state = typeOf(random.getInitialState());
  bool isThreefry =
      random.getRngAlgorithm() == stablehlo::RngAlgorithm::THREE_FRY;
  bool isState =
      state.getRank() == 1 && state.getElementType().isUnsignedInteger(64) &&
      (state.getDimSize(0) == 2 || (state.getDimSize(0) == 3 && !isThreefry));
  if (!isState || !typeOf(random.getOutput()).getElementType().isInteger())
    return random.emitOpError("not in the targets for a state of ")
           << state << " and bits of " << random.getOutput().getType()
           << "; give it integers and a state of ui64, 2 words, or 3 for "
              "PHILOX";
  Generator generator(b, random);
  return generator.results(random, isThreefry ? generator.threefry()
                                              : generator.philox());
}

//===----------------------------------------------------------------------===//
// Bitcasts
//===----------------------------------------------------------------------===//

static IntegerType wordType(Type element) {
  return IntegerType::get(element.getContext(), element.getIntOrFloatBitWidth(),
                          IntegerType::Unsigned);
}

static Value shiftBy(ImplicitLocOpBuilder &b, Value value, int64_t count,
                     bool isUp) {
  if (count == 0)
    return value;
  RankedTensorType type = typeOf(value);
  unsigned bits = type.getElementTypeBitWidth();
  Value by = stablehlo::buildConstant(b, type, APInt(bits, count));
  if (isUp)
    return stablehlo::ShiftLeftOp::create(b, value, by);
  return stablehlo::ShiftRightLogicalOp::create(b, value, by);
}

/// Splits each element into parts, the lowest first, along a new last
/// dimension.
static Value takeApart(ImplicitLocOpBuilder &b, Value wide, Type element) {
  SmallVector<int64_t> apart(typeOf(wide).getShape());
  apart.push_back(1);
  int64_t width = element.getIntOrFloatBitWidth();
  int64_t count = typeOf(wide).getElementTypeBitWidth() / width;
  SmallVector<Value> parts;
  for (int64_t i = 0; i < count; ++i) {
    Value part = stablehlo::ConvertOp::create(
        b, shiftBy(b, wide, i * width, /*isUp=*/false), element);
    parts.push_back(stablehlo::ReshapeOp::create(
        b, RankedTensorType::get(apart, element), part));
  }
  return stablehlo::ConcatenateOp::create(b, parts, apart.size() - 1);
}

/// Combines the elements along the last dimension, the lowest first, into one.
static Value combineElements(ImplicitLocOpBuilder &b, Value parts,
                             Type element) {
  RankedTensorType type = typeOf(parts);
  int64_t last = type.getRank() - 1, width = type.getElementTypeBitWidth();
  auto whole = RankedTensorType::get(type.getShape().drop_back(), element);
  Value sum;
  for (int64_t i = 0; i < type.getDimSize(last); ++i) {
    Value part = stablehlo::SliceOp::create(b, parts, last, i, i + 1);
    part = stablehlo::ConvertOp::create(b, part, element);
    part = stablehlo::ReshapeOp::create(b, whole, part);
    part = shiftBy(b, part, i * width, /*isUp=*/true);
    sum = sum ? Value(stablehlo::OrOp::create(b, sum, part)) : part;
  }
  return sum;
}

static bool isBetweenWidths(Operation *op) {
  auto bitcast = dyn_cast<stablehlo::BitcastConvertOp>(op);
  auto isPlain = [](Value value) {
    return typeOf(value).getElementType().isIntOrFloat();
  };
  return bitcast && isPlain(bitcast.getOperand()) &&
         isPlain(bitcast.getResult()) &&
         typeOf(bitcast.getOperand()).getElementTypeBitWidth() !=
             typeOf(bitcast.getResult()).getElementTypeBitWidth();
}

static FailureOr<SmallVector<Value>>
expandBitcast(ImplicitLocOpBuilder &b, stablehlo::BitcastConvertOp op) {
  auto bitcast = [&](Value value, Type element) -> Value {
    if (typeOf(value).getElementType() == element)
      return value;
    return stablehlo::BitcastConvertOp::create(b, typeOf(value).clone(element),
                                               value);
  };
  Type from = typeOf(op.getOperand()).getElementType();
  Type to = typeOf(op.getResult()).getElementType();
  // Import makes bytes of other integers below 8 bits, or refuses them.
  if (from.isInteger(1) || to.isInteger(1))
    return op.emitOpError("between ")
           << op.getOperand().getType() << " and " << op.getType()
           << " has no lowering: booleans take a byte each; compare with 0, or "
              "select 1 or 0";
  Value words = bitcast(op.getOperand(), wordType(from));
  bool isWide = from.getIntOrFloatBitWidth() > to.getIntOrFloatBitWidth();
  Value made = isWide ? takeApart(b, words, wordType(to))
                      : combineElements(b, words, wordType(to));
  return SmallVector<Value>{bitcast(made, to)};
}

static FailureOr<SmallVector<Value>> expandBits(ImplicitLocOpBuilder &b,
                                                Operation *op) {
  if (auto bitcast = dyn_cast<stablehlo::BitcastConvertOp>(op))
    return expandBitcast(b, bitcast);
  return expandGenerator(b, op);
}

namespace {
struct ExpandBitsPass : scalify::impl::ExpandBitsBase<ExpandBitsPass> {
  void runOnOperation() override;
};
} // namespace

void ExpandBitsPass::runOnOperation() {
  auto isChosen = [](Operation *op) {
    return isa<RngBitGeneratorOp>(op) || isBetweenWidths(op);
  };
  auto count = expandOps(getOperation(), isChosen, expandBits);
  if (failed(count))
    return signalPassFailure();
  numExpanded += *count;
}
