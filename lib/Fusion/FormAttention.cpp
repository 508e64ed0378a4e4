//===- FormAttention.cpp - Library attention calls ------------------------===//
//
// A fused attention rounds its results to 16 bits and does not scale them
// afterwards. So one is formed only if the program rounds there too, or the
// recipe runs the attention in BF16, and if the scales that remain are powers
// of two, which change no bit.
//
//===----------------------------------------------------------------------===//

#include "AttentionPattern.h"
#include "OpCosts.h"
#include "RepeatedOps.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Fusion/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace scalify {
#define GEN_PASS_DEF_FORMATTENTION
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// Limits of cuDNN on Hopper: the channels of a head in a gradient, and the
/// alignment of 16 bytes in elements.
static constexpr int64_t kMaxHeadChannels = 128;
static constexpr int64_t kAlignment = 8;

static bool isPowerOfTwo(double number) {
  int exponent;
  return std::frexp(number, &exponent) == 0.5;
}

static int64_t extentOf(const AttentionOperand &operand, Axis axis) {
  return operand[axis].size;
}

namespace {
/// The path from a dot's result to its rounding to 16 bits.
struct RoundingPath {
  // The ops after the dot, up to the rounding; empty if the dot itself rounds.
  SmallVector<Operation *> chain;
  double factor = 1; // of the chain
};

class Former {
public:
  Former(AttentionPattern &pattern, bool isExact)
      : pattern(pattern), isExact(isExact) {}

  /// Returns why no library computes it, or "".
  std::string check();
  void form();

private:
  std::string checkOperands();
  std::string checkExtents();
  std::string checkFormats();
  bool mayRound() const;
  std::string followResult(AttentionDot &dot, RoundingPath &landing) const;
  std::string findRoundingPath(AttentionDot &dot);
  void addWindow(const AttentionOperand &operand, bool isKeySide);
  void addResultWindow(bool isKeySide);
  plan::AttendOp attend(ArrayRef<Value> operands, TypeRange results,
                        bool isGradient, Operation *phase);
  void replace(AttentionDot &dot, Value result);
  Value view(Value result, const Axes &axes, OpBuilder &b);
  RankedTensorType resultType(bool isKeySide);

  AttentionPattern &pattern;
  bool isExact;
  SmallVector<int64_t> sizes, windows;
  llvm::DenseMap<Operation *, RoundingPath> roundingPaths;
};

class FormAttentionPass
    : public scalify::impl::FormAttentionBase<FormAttentionPass> {
public:
  using FormAttentionBase::FormAttentionBase;
  void runOnOperation() override;

private:
  bool form(stablehlo::DivOp quotient, std::string &why);
};
} // namespace

//===----------------------------------------------------------------------===//
// Limits of the library
//===----------------------------------------------------------------------===//

static SmallVector<AttentionDot *> getResults(AttentionPattern &pattern) {
  SmallVector<AttentionDot *> dots;
  if (pattern.mix)
    dots.push_back(&*pattern.mix);
  if (pattern.gradient)
    dots.append({&pattern.gradient->q, &pattern.gradient->k,
                 &pattern.gradient->values});
  return dots;
}

std::string Former::checkFormats() {
  SmallVector<stablehlo::DotGeneralOp> dots{pattern.scores};
  if (pattern.gradient)
    dots.push_back(pattern.gradient->weights);
  for (AttentionDot *dot : getResults(pattern))
    dots.push_back(dot->op);
  for (stablehlo::DotGeneralOp dot : dots)
    for (Value operand : dot->getOperands()) {
      Type element = typeOf(operand).getElementType();
      if (element == pattern.element && (element.isBF16() || element.isF16()))
        continue;
      std::string text;
      llvm::raw_string_ostream(text)
          << "an operand is " << element << ", and the library multiplies "
          << "bf16 or f16";
      return text;
    }
  return "";
}

/// Returns the head dimension: key heads and the groups that share them.
static std::optional<Dim> getHeads(const AttentionOperand &operand) {
  return collapse({operand[Axis::KeyHead], operand[Axis::Group]});
}

static std::string checkLayout(const AttentionOperand &operand) {
  std::optional<Dim> heads = getHeads(operand);
  if (!heads)
    return "heads of its queries have no uniform stride";
  if (operand[Axis::Channel].stride != 1)
    return "channels of a head are not contiguous";
  auto isAligned = [](Dim dim) {
    return dim.size == 1 || dim.stride % kAlignment == 0;
  };
  if (operand.offset % kAlignment || !isAligned(*heads) ||
      !llvm::all_of(ArrayRef(operand.dims).drop_back(),
                    [&](Dim dim) { return isAligned(dim); }))
    return "an operand's strides are no multiples of 16 bytes";
  return "";
}

std::string Former::checkOperands() {
  int64_t channels = extentOf(pattern.q, Axis::Channel);
  if (channels % kAlignment || channels > kMaxHeadChannels)
    return ("heads of " + Twine(channels) +
            " channels; the library has those "
            "of multiples of " +
            Twine(kAlignment) + " up to " + Twine(kMaxHeadChannels))
        .str();
  SmallVector<AttentionOperand> operands{pattern.q, pattern.k};
  if (pattern.gradient)
    operands.append({pattern.gradient->grad, pattern.gradient->v});
  if (pattern.mix)
    operands.push_back(pattern.mix->operand);
  for (const AttentionOperand &operand : operands) {
    if (extentOf(operand, Axis::Channel) != channels)
      return "keys and values have heads of different sizes";
    if (std::string why = checkLayout(operand); !why.empty())
      return why;
  }
  return "";
}

/// Checks that the operands and results of one attention have equal extents:
/// those of q on the query side, those of k, without groups, on the key side.
std::string Former::checkExtents() {
  using Sides = std::pair<ArrayRef<Axis>, const AttentionOperand *>;
  const Axis ofQueries[] = {Axis::Batch, Axis::KeyHead, Axis::Group,
                            Axis::Query};
  const Axis ofKeys[] = {Axis::Batch, Axis::KeyHead, Axis::Key};
  auto isLike = [&](const AttentionOperand &operand, const Sides &side) {
    for (size_t i = 0; i < operand.dims.size() - 1; ++i) {
      Axis axis = static_cast<Axis>(i);
      int64_t wanted = llvm::is_contained(side.first, axis)
                           ? extentOf(*side.second, axis)
                           : 1;
      if (extentOf(operand, axis) != wanted)
        return false;
    }
    return true;
  };
  Sides queries{ofQueries, &pattern.q}, keys{ofKeys, &pattern.k};
  bool areAlike =
      isLike(pattern.q, queries) && isLike(pattern.k, keys) &&
      extentOf(pattern.k, Axis::Batch) == extentOf(pattern.q, Axis::Batch) &&
      extentOf(pattern.k, Axis::KeyHead) == extentOf(pattern.q, Axis::KeyHead);
  if (pattern.mix)
    areAlike &= isLike(pattern.mix->operand, keys);
  if (pattern.gradient)
    areAlike &= isLike(pattern.gradient->grad, queries) &&
                isLike(pattern.gradient->v, keys);
  if (!areAlike)
    return "queries, keys and values differ in batches or heads";
  for (AttentionDot *dot : getResults(pattern)) {
    bool isKeySide = llvm::is_contained(dot->axes, Axis::Key);
    const Sides &side = isKeySide ? keys : queries;
    for (Axis axis : side.first)
      if (extentOf(*side.second, axis) > 1 &&
          !llvm::is_contained(dot->axes, axis))
        return "a result sums over batches or heads";
  }
  if (pattern.isCausal &&
      extentOf(pattern.q, Axis::Query) != extentOf(pattern.k, Axis::Key))
    return "it is causal, and its queries and keys differ in number";
  // The call comes after its operands. Of the dots that it replaces, the one
  // for the gradient of the values does not read the values.
  if (pattern.gradient)
    if (Operation *values = pattern.gradient->v.base.getDefiningOp();
        values && pattern.gradient->values.op->isBeforeInBlock(values))
      return "the gradient of its values is computed before them";
  return "";
}

/// True if casts of the recipe made all operands in memory BF16: then the
/// results may be BF16 too.
bool Former::mayRound() const {
  auto isCast = [](const AttentionOperand &operand) {
    auto cast = operand.base.getDefiningOp<QuantizeOp>();
    return cast && typeOf(cast.getValue()).getElementType().isF32();
  };
  return pattern.element.isBF16() && isCast(pattern.q) && isCast(pattern.k) &&
         (!pattern.mix || isCast(pattern.mix->operand)) &&
         (!pattern.gradient ||
          (isCast(pattern.gradient->v) && isCast(pattern.gradient->grad)));
}

/// Follows a result of F32 to where it is rounded to 16 bits.
std::string Former::followResult(AttentionDot &dot,
                                 RoundingPath &landing) const {
  Value value = dot.op.getResult();
  while (typeOf(value).getElementType() != pattern.element) {
    Operation *user = value.hasOneUse() ? *value.user_begin()
                                        : static_cast<Operation *>(nullptr);
    if (!user || !typeOf(value).getElementType().isF32())
      return "a result is not rounded to the operands' format";
    if (auto mul = dyn_cast<stablehlo::MulOp>(user)) {
      std::optional<double> factor = getSplatNumber(mul.getRhs());
      if (!factor || !isPowerOfTwo(*factor))
        return "a result is multiplied before it is rounded";
      landing.factor *= *factor;
    } else if (isa<QuantizeOp>(user) &&
               typeOf(user->getResult(0)).getElementType() == pattern.element) {
      landing.factor = 0; // a counted cast, which stays
    } else if (!isa<stablehlo::ConvertOp, stablehlo::TransposeOp,
                    stablehlo::ReshapeOp>(user)) {
      return "a result is not rounded to the operands' format";
    }
    landing.chain.push_back(user);
    value = user->getResult(0);
  }
  return "";
}

std::string Former::findRoundingPath(AttentionDot &dot) {
  RoundingPath landing;
  if (std::string why = followResult(dot, landing); !why.empty()) {
    if (!mayRound())
      return why;
    if (isExact)
      return why + " (library_attention=recipe lets the library round it)";
    landing = RoundingPath();
  }
  double factor = dot.factor * (landing.factor == 0 ? 1 : landing.factor);
  if (!isPowerOfTwo(dot.factor))
    return "its gradient has another scale than its scores";
  if (pattern.element.isF16() && factor != 1)
    return "f16 results would be rounded before their scale is applied";
  roundingPaths[dot.op] = landing;
  return "";
}

std::string Former::check() {
  std::string why = checkFormats();
  if (why.empty())
    why = checkOperands();
  if (why.empty())
    why = checkExtents();
  for (AttentionDot *dot : getResults(pattern))
    if (why.empty())
      why = findRoundingPath(*dot);
  return why;
}

//===----------------------------------------------------------------------===//
// The op
//===----------------------------------------------------------------------===//

void Former::addWindow(const AttentionOperand &operand, bool isKeySide) {
  Axis row = isKeySide ? Axis::Key : Axis::Query;
  int64_t channels = extentOf(operand, Axis::Channel);
  auto step = [&](Dim dim) { return dim.size == 1 ? channels : dim.stride; };
  windows.append({operand.offset, step(operand[Axis::Batch]),
                  step(*getHeads(operand)), step(operand[row])});
}

void Former::addResultWindow(bool isKeySide) {
  int64_t heads = sizes[isKeySide ? plan::KeyHeads : plan::Heads];
  int64_t rows = sizes[isKeySide ? plan::Keys : plan::Queries];
  int64_t channels = sizes[plan::Channels];
  windows.append({0, rows * heads * channels, channels, heads * channels});
}

RankedTensorType Former::resultType(bool isKeySide) {
  return RankedTensorType::get(
      {sizes[plan::Batch], sizes[isKeySide ? plan::Keys : plan::Queries],
       sizes[isKeySide ? plan::KeyHeads : plan::Heads], sizes[plan::Channels]},
      pattern.element);
}

/// Sets the insertion point after the last of the operands: all users of the
/// results come later.
static void setInsertionPointAfterAll(OpBuilder &b, ArrayRef<Value> operands,
                                      Block *block) {
  Operation *last = nullptr;
  for (Value operand : operands)
    if (Operation *def = operand.getDefiningOp();
        def && (!last || last->isBeforeInBlock(def)))
      last = def;
  if (last)
    b.setInsertionPointAfter(last);
  else
    b.setInsertionPointToStart(block);
}

plan::AttendOp Former::attend(ArrayRef<Value> operands, TypeRange results,
                              bool isGradient, Operation *like) {
  OpBuilder b(like->getContext());
  setInsertionPointAfterAll(b, operands, like->getBlock());
  auto op = plan::AttendOp::create(b, like->getLoc(), results, operands, sizes,
                                   windows, llvm::APFloat(pattern.scale),
                                   pattern.isCausal, isGradient);
  copyPhase(like, op);
  return op;
}

/// Returns a result [batch, row, head, channel] in the shape of the dot's
/// result.
Value Former::view(Value result, const Axes &axes, OpBuilder &b) {
  bool isKeySide = llvm::is_contained(axes, Axis::Key);
  const AttentionOperand &like = isKeySide ? pattern.k : pattern.q;
  SmallVector<int64_t> shape, order(axes.size());
  for (Axis axis : {Axis::Batch, isKeySide ? Axis::Key : Axis::Query,
                    Axis::KeyHead, Axis::Group, Axis::Channel}) {
    const auto *place = llvm::find(axes, axis);
    if (place == axes.end())
      continue;
    order[place - axes.begin()] = static_cast<int64_t>(shape.size());
    shape.push_back(extentOf(like, axis));
  }
  Location loc = result.getLoc();
  result =
      stablehlo::ReshapeOp::create(b, loc, typeOf(result).clone(shape), result);
  if (llvm::is_sorted(order))
    return result;
  SmallVector<int64_t> turned;
  for (int64_t d : order)
    turned.push_back(shape[d]);
  return stablehlo::TransposeOp::create(b, loc, typeOf(result).clone(turned),
                                        result, order);
}

static Value times(Value value, double factor, OpBuilder &b) {
  if (factor == 1)
    return value;
  Value number =
      stablehlo::buildNumber(b, value.getLoc(), value.getType(), factor);
  return stablehlo::MulOp::create(b, value.getLoc(), value, number);
}

/// Replaces the dot by the attention's result: as it is if the scales cancel,
/// else through the program's own scales and rounding.
void Former::replace(AttentionDot &dot, Value result) {
  OpBuilder b(dot.op);
  const RoundingPath &landing = roundingPaths[dot.op];
  Value value = view(result, dot.axes, b);
  if (landing.chain.empty() || dot.factor * landing.factor != 1) {
    RankedTensorType type = typeOf(dot.op.getResult());
    if (type.getElementType() != pattern.element)
      value = stablehlo::ConvertOp::create(b, dot.op.getLoc(), type, value);
    dot.op.getResult().replaceAllUsesWith(times(value, dot.factor, b));
    return;
  }
  b.setInsertionPoint(landing.chain.back());
  for (Operation *op : landing.chain) {
    if (!isa<stablehlo::TransposeOp, stablehlo::ReshapeOp>(op))
      continue;
    Operation *copy = b.clone(*op);
    copy->setOperand(0, value);
    copy->getResult(0).setType(typeOf(op->getResult(0)).clone(pattern.element));
    value = copy->getResult(0);
  }
  landing.chain.back()->getResult(0).replaceAllUsesWith(value);
}

void Former::form() {
  const AttentionOperand &q = pattern.q, &k = pattern.k;
  const AttentionOperand &v =
      pattern.mix ? pattern.mix->operand : pattern.gradient->v;
  int64_t keyHeads = extentOf(k, Axis::KeyHead);
  sizes = {extentOf(q, Axis::Batch),
           keyHeads * extentOf(q, Axis::Group),
           keyHeads,
           extentOf(q, Axis::Query),
           extentOf(k, Axis::Key),
           extentOf(q, Axis::Channel)};
  addWindow(q, false);
  addWindow(k, true);
  addWindow(v, true);
  addResultWindow(false);
  auto statistics = RankedTensorType::get(
      {sizes[plan::Batch], sizes[plan::Heads], sizes[plan::Queries]},
      Float32Type::get(pattern.scores.getContext()));
  plan::AttendOp forward =
      attend({q.base, k.base, v.base}, {resultType(false), statistics}, false,
             pattern.scores);
  if (pattern.mix)
    replace(*pattern.mix, forward.getResult(0));
  if (!pattern.gradient)
    return;
  AttentionGradient &gradient = *pattern.gradient;
  addWindow(gradient.grad, false);
  addResultWindow(false);
  addResultWindow(true);
  addResultWindow(true);
  plan::AttendOp backward =
      attend({q.base, k.base, v.base, forward.getResult(0), gradient.grad.base,
              forward.getResult(1)},
             {resultType(false), resultType(true), resultType(true)}, true,
             gradient.weights);
  replace(gradient.q, backward.getResult(0));
  replace(gradient.k, backward.getResult(1));
  replace(gradient.values, backward.getResult(2));
}

/// Returns true if an attention was formed. If not, and `why` is empty, the
/// quotient belongs to no attention.
bool FormAttentionPass::form(stablehlo::DivOp quotient, std::string &why) {
  auto pattern = matchAttention(quotient, why);
  if (!pattern)
    return false;
  Former former(*pattern, level == "exact");
  why = former.check();
  if (!why.empty())
    return false;
  former.form();
  ++numForwards;
  numGradients += pattern->gradient ? 1 : 0;
  return true;
}

/// Folds pairs of transposes: a library's result is transposed to the order of
/// the dot that it replaces, and users may transpose it back. Transposes that
/// are materialised stay.
static void foldTransposes(Block &block) {
  auto isStored = [](Operation *op) {
    return op->hasAttr(plan::kMaterialiseAttr);
  };
  for (auto outer : block.getOps<stablehlo::TransposeOp>()) {
    auto inner = outer.getOperand().getDefiningOp<stablehlo::TransposeOp>();
    if (!inner || isStored(inner) || isStored(outer))
      continue;
    auto order = llvm::map_to_vector(outer.getPermutation(), [&](int64_t dim) {
      return inner.getPermutation()[dim];
    });
    outer.getOperandMutable().assign(inner.getOperand());
    outer.setPermutation(order);
    if (llvm::is_sorted(order))
      outer.getResult().replaceAllUsesWith(outer.getOperand());
  }
}

void FormAttentionPass::runOnOperation() {
  Block &block = getOperation().getBody().front();
  SmallVector<stablehlo::DivOp> quotients(block.getOps<stablehlo::DivOp>());
  for (stablehlo::DivOp quotient : quotients) {
    if (quotient->use_empty())
      continue;
    // The backward may have computed the softmax again.
    RepeatedOps repeats(block);
    repeats.merge(quotient.getLhs());
    repeats.merge(quotient.getResult());
    std::string why, whyAlone;
    if (form(quotient, why))
      continue;
    repeats.undo();
    bool isForward = !repeats.empty() && form(quotient, whyAlone);
    if (!why.empty())
      quotient.emitRemark(isForward ? "the repeated softmax of an "
                                      "attention stays GEMMs and kernels: "
                                    : "attention stays GEMMs and kernels: ")
          << why;
  }
  foldTransposes(block);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}
