//===- FormEpilogues.cpp - Epilogues of GEMMs -----------------------------===//
//
// Fuses a bias, a ReLU and a GELU after a product, and their gradients, into
// the library's GEMM if their result is stored anyway, for another GEMM or as a
// result: this removes a kernel. If only kernels read the result, the bias
// stays in them and is free.
//
//===----------------------------------------------------------------------===//

#include "Clusters.h"
#include "EpilogueChain.h"
#include "StridedView.h"

#include "scalify/Dialect/StableHLO/Edits.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Idioms/GELU.h"

#include "mlir/IR/Matchers.h"

namespace scalify {
#define GEN_PASS_DEF_FORMEPILOGUES
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static Type elementOf(Value value) { return typeOf(value).getElementType(); }

static bool isHalf(Type type) { return type.isBF16() || type.isF16(); }

namespace {
struct FormEpiloguesPass : scalify::impl::FormEpiloguesBase<FormEpiloguesPass> {
  using FormEpiloguesBase::FormEpiloguesBase;
  void runOnOperation() override;

private:
  void form(plan::MatmulOp op);
  void apply(const Chain &chain);
  std::string whyNot(const Chain &chain) const;
  std::string whyNotBias(const Chain &chain) const;
  /// True if the library may round and compute in its own way.
  bool isLoose() const { return level == "all"; }
};
} // namespace

//===----------------------------------------------------------------------===//
// Biases
//===----------------------------------------------------------------------===//

/// Returns the strided view of a value through broadcasts too, whose strides
/// are 0.
static StridedView viewBroadcast(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto reshape = dyn_cast_or_null<stablehlo::ReshapeOp>(op)) {
    StridedView view = viewBroadcast(reshape.getOperand());
    auto dims = reshapeDims(view.dims, typeOf(value).getShape());
    if (!dims)
      return StridedView::identity(value);
    view.dims = *dims;
    return view;
  }
  auto broadcast = dyn_cast_or_null<stablehlo::BroadcastInDimOp>(op);
  if (!broadcast)
    return StridedView::of(value);
  StridedView source = viewBroadcast(broadcast.getOperand()), view = source;
  view.dims.clear();
  for (int64_t extent : typeOf(value).getShape())
    view.dims.push_back({extent, 0});
  for (auto [i, d] : llvm::enumerate(broadcast.getBroadcastDimensions()))
    if (source.dims[i].size == view.dims[d].size)
      view.dims[d].stride = source.dims[i].stride;
  return view;
}

/// Matches an added value that is a vector.
static std::optional<Bias> matchBias(Value value) {
  StridedView view = viewBroadcast(value);
  SmallVector<Dim> run;
  int64_t behind = 1;
  for (Dim dim : view.dims) {
    if (dim.size == 1)
      continue;
    if (dim.stride == 0) {
      behind *= dim.size;
      continue;
    }
    if (behind != 1 && !run.empty())
      return std::nullopt;
    behind = 1;
    run.push_back(dim);
  }
  std::optional<Dim> vector = collapse(run);
  if (run.empty() || !vector || vector->stride != 1)
    return std::nullopt;
  Bias bias;
  bias.vector = {view.base, view.offset};
  bias.size = vector->size;
  bias.isInnermost = behind == 1;
  auto wide = view.base.getDefiningOp<stablehlo::ConvertOp>();
  if (!wide || !isHalf(elementOf(wide.getOperand())))
    return bias;
  StridedView source = StridedView::of(wide.getOperand());
  if (std::optional<Dim> whole = collapse(source.dims);
      whole && whole->stride == 1)
    bias.narrow = {source.base, source.offset + view.offset};
  return bias;
}

/// Returns the bias in the type that the library adds: the vector or its narrow
/// source; none if neither has that type.
static std::optional<Vector> getAdded(const Chain &chain) {
  plan::MatmulOp op = chain.product;
  Type wanted = plan::getBiasType(elementOf(op.getA()), chain.element());
  const Bias &bias = *chain.bias;
  if (bias.narrow && elementOf(bias.narrow->base) == wanted)
    return bias.narrow;
  if (elementOf(bias.vector.base) == wanted)
    return bias.vector;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// True if `a` is defined before `b`; both are in one block.
static bool isDefinedBefore(Value a, Value b) {
  Operation *first = a.getDefiningOp(), *second = b.getDefiningOp();
  return !first || (second && first->isBeforeInBlock(second));
}

static std::optional<Chain> fuseBias(Chain chain) {
  Value product = chain.product.getC();
  SmallVector<Operation *> users = usersOf(chain);
  chain.values.clear();
  bool isThere = false;
  for (Operation *user : users) {
    auto add = dyn_cast<stablehlo::AddOp>(user);
    if (!add)
      return std::nullopt;
    bool isLhs = add.getLhs() == product;
    auto bias = matchBias(isLhs ? add.getRhs() : add.getLhs());
    if (!bias || bias->vector.base == product ||
        (chain.bias && !(*chain.bias == *bias)))
      return std::nullopt;
    // Of several widened copies of the vector, take the first.
    if (!chain.bias ||
        isDefinedBefore(bias->vector.base, chain.bias->vector.base))
      chain.bias = bias;
    chain.values.push_back(add);
    // In a pipeline, the stage of the product must have the vector.
    isThere |= isNear(add, chain);
  }
  if (!isThere ||
      chain.bias->size != static_cast<int64_t>(chain.product.getN()))
    return std::nullopt;
  return chain;
}

static bool isZero(Value value) {
  value = lookThrough(value, Move::Broadcast | Move::Reshape);
  return matchPattern(value, m_AnyZeroFloat());
}

/// True if `op` computes whether a value of `values` is above 0, which holds
/// exactly if its ReLU is above 0.
static bool isSign(stablehlo::CompareOp op, ValueRange values) {
  using stablehlo::ComparisonDirection;
  auto direction = op.getComparisonDirection();
  return (direction == ComparisonDirection::GT &&
          llvm::is_contained(values, op.getLhs()) && isZero(op.getRhs())) ||
         (direction == ComparisonDirection::LT && isZero(op.getLhs()) &&
          llvm::is_contained(values, op.getRhs()));
}

static std::optional<Chain> fuseReLU(Chain chain) {
  SmallVector<Value> before(chain.values);
  SmallVector<Operation *> users = usersOf(chain);
  chain.values.clear();
  for (Operation *user : users) {
    auto sign = dyn_cast<stablehlo::CompareOp>(user);
    if (sign && isSign(sign, before)) {
      chain.signs.push_back(sign);
      continue;
    }
    auto max = dyn_cast<stablehlo::MaxOp>(user);
    if (!max || !(isZero(max.getLhs()) || isZero(max.getRhs())))
      return std::nullopt;
    chain.values.push_back(max);
  }
  chain.hasReLU = true;
  return chain.values.empty() ? std::nullopt : std::optional(chain);
}

/// Returns the sums and products computed from the values, nearest first.
static SmallVector<Operation *> arithmeticOf(ValueRange values) {
  constexpr size_t most = 128; // a gradient of GELU has about 40
  llvm::SmallSetVector<Operation *, 32> users;
  for (Value value : values)
    users.insert_range(value.getUsers());
  for (size_t i = 0; i < users.size() && i < most; ++i)
    if (isa<stablehlo::AddOp, stablehlo::SubtractOp, stablehlo::MulOp,
            stablehlo::NegOp, stablehlo::TanhOp, stablehlo::ConvertOp,
            stablehlo::ReshapeOp>(users[i]))
      users.insert_range(users[i]->getUsers());
  auto shape = typeOf(values.front()).getShape();
  users.remove_if([&](Operation *op) {
    return !isa<stablehlo::AddOp, stablehlo::SubtractOp, stablehlo::MulOp>(
               op) ||
           typeOf(op->getResult(0)).getShape() != shape;
  });
  return users.takeVector();
}

static std::optional<Chain> fuseGELU(Chain chain) {
  if (chain.hasReLU)
    return std::nullopt;
  SmallVector<Value> before(chain.values);
  GELUPattern pattern = GELUPattern::of(before);
  chain.values.clear();
  for (Operation *op : arithmeticOf(before))
    if (pattern.match(op))
      chain.values.push_back(op->getResult(0));
  if (chain.values.empty())
    return std::nullopt;
  for (Value value : before)
    if (!llvm::all_of(value.getUsers(),
                      [&](Operation *user) { return pattern.isInside(user); }))
      chain.kept = before;
  chain.hasGELU = true;
  return chain;
}

static std::optional<Chain> fuseGELUGradient(Chain chain) {
  if (chain.epilogue() != plan::Epilogue::None)
    return std::nullopt;
  Value product = chain.product.getC();
  for (Operation *op : arithmeticOf(chain.values)) {
    GELUPattern pattern = GELUPattern::ofGradient(product);
    if (!pattern.match(op))
      continue;
    auto isInside = [&](Operation *user) { return pattern.isInside(user); };
    if (!isNear(op, chain) || !llvm::all_of(product.getUsers(), isInside))
      return std::nullopt;
    chain.values = {op->getResult(0)};
    chain.geluInput = pattern.input();
    return chain;
  }
  return std::nullopt;
}

static std::optional<Chain> fuseReLUGradient(Chain chain) {
  if (chain.epilogue() != plan::Epilogue::None)
    return std::nullopt;
  Value product = chain.product.getC();
  chain.values.clear();
  for (Operation *user : product.getUsers()) {
    auto select = dyn_cast<stablehlo::SelectOp>(user);
    if (!select || select.getOnTrue() != product ||
        !isZero(select.getOnFalse()) || !isNear(select, chain))
      return std::nullopt;
    auto sign = select.getPred().getDefiningOp<stablehlo::CompareOp>();
    for (unsigned side : {0, 1}) {
      auto forward =
          sign ? sign->getOperand(side).getDefiningOp<plan::MatmulOp>()
               : nullptr;
      if (!forward || !plan::hasReLU(forward.getEpilogue()) ||
          !isSign(sign, forward.getC()))
        continue;
      if (chain.clamped && chain.clamped != forward)
        return std::nullopt;
      chain.clamped = forward;
      chain.values.push_back(select);
    }
  }
  return chain.values.size() == llvm::range_size(product.getUsers()) &&
                 chain.clamped
             ? std::optional(chain)
             : std::nullopt;
}

static std::optional<Chain> fuseRounding(Chain chain) {
  if (!chain.element().isF32() || chain.epilogue() == plan::Epilogue::None)
    return std::nullopt;
  // Rounding may flush a sum above 0 to 0.
  if (!chain.signs.empty())
    return std::nullopt;
  SmallVector<Operation *> users = usersOf(chain);
  chain.values.clear();
  for (Operation *user : users) {
    auto convert = dyn_cast<stablehlo::ConvertOp>(user);
    if (!convert || !isHalf(elementOf(convert)) ||
        (!chain.values.empty() && elementOf(convert) != chain.element()))
      return std::nullopt;
    chain.values.push_back(convert);
  }
  chain.isRounded = true;
  return chain;
}

//===----------------------------------------------------------------------===//
// Legality and profitability
//===----------------------------------------------------------------------===//

/// True if the value is stored anyway: it is the operand of a library call, a
/// piece of a stack, or a result.
static bool isStored(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    if (isa<stablehlo::ReshapeOp>(user))
      return isStored(user->getResult(0));
    return isLibraryCall(user) || isStack(user) || isa<func::ReturnOp>(user);
  });
}

static bool hasStridesMultipleOf(plan::MatmulOp op, int64_t size) {
  if (op.getM() != 1 && op.getCStrides()[0] % size)
    return false;
  for (size_t i = 2; i < op.getBatchStrides().size(); i += 3)
    if (op.getBatchStrides()[i] % size)
      return false;
  return true;
}

/// Returns why the library has no such bias, or "".
std::string FormEpiloguesPass::whyNotBias(const Chain &chain) const {
  plan::MatmulOp op = chain.product;
  if (isHalf(elementOf(op.getC())) && !isLoose())
    return "the program rounds the product before it adds the bias, and the "
           "library after it (epilogues=all allows it)";
  if (!chain.bias->isInnermost || !hasStridesMultipleOf(op, chain.bias->size))
    return "the bias does not run along the rows of the result";
  std::optional<Vector> added = getAdded(chain);
  Type wanted = plan::getBiasType(elementOf(op.getA()), chain.element());
  std::string text;
  llvm::raw_string_ostream out(text);
  if (!added)
    out << "to a result of " << chain.element() << " it adds a bias of "
        << wanted << ", and this one is " << elementOf(chain.bias->vector.base);
  else if (added->offset * plan::elementBytes(wanted) % plan::kBiasAlignment)
    out << "the bias lies at no multiple of " << plan::kBiasAlignment
        << " bytes";
  return text;
}

/// Returns why the library cannot read what the gradient needs, or "".
static std::string whyNotGradient(const Chain &chain) {
  plan::MatmulOp op = chain.product, forward = chain.clamped;
  if (forward && (isFP8(op) || isFP8(forward)))
    return "FP8 products keep and read no bits of a ReLU";
  if (forward)
    return op.getBatch().empty() && forward.getBatch().empty() &&
                   op.getM() == forward.getM() && op.getN() == forward.getN()
               ? ""
               : "the ReLU's bits are those of a batch of products";
  Value input = chain.geluInput;
  Operation *maker = input.getDefiningOp();
  if (maker && !isLibraryCall(maker))
    return "the GELU's input is not in memory, since a kernel does the GELU";
  std::string text;
  llvm::raw_string_ostream out(text);
  if (elementOf(input) != chain.element())
    out << "for a result of " << chain.element() << " it reads the GELU's "
        << "input in that type, and this one is " << elementOf(input);
  return text;
}

/// Returns why the product and its epilogue cannot be one call, or "".
std::string FormEpiloguesPass::whyNot(const Chain &chain) const {
  plan::MatmulOp op = chain.product;
  if (op.getAScaling() != plan::Scaling::Tensor ||
      op.getBScaling() != plan::Scaling::Tensor)
    return "the operands have more than one scale each";
  if (isFP8(op) && !op.getBatch().empty())
    return "it is a batch of FP8 products";
  if (chain.cast)
    if (std::string why = whyNotCast(chain, isLoose()); !why.empty())
      return why;
  if (chain.cast && chain.epilogue() == plan::Epilogue::None)
    return "";
  if (chain.isRounded && !isFP8(op) && elementOf(op.getA()) != chain.element())
    return "the library rounds a product to the type of its operands only";
  if (op.getCStrides()[1] != 1)
    return "the rows of the result are not contiguous";
  constexpr int64_t rowBytes = 16;
  int64_t row =
      static_cast<int64_t>(op.getN()) * plan::elementBytes(chain.element());
  if (isFP8(op) && chain.isRounded && row % rowBytes)
    return "rows of an FP8 product that are rounded would be no multiple of "
           "16 bytes";
  if (!chain.kept.empty() && elementOf(chain.kept.front()) != chain.element())
    return "the product that the backward reads would be rounded too";
  if ((!chain.kept.empty() || chain.geluInput) &&
      !hasStridesMultipleOf(op, plan::kAuxAlignment))
    return "the GELU's input has rows of no multiple of 8 elements";
  if (chain.isGradient())
    return whyNotGradient(chain);
  return chain.bias ? whyNotBias(chain) : "";
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// Returns the bits that a product with a ReLU stores for its gradient; makes
/// it store them if it does not yet.
static Value getMask(plan::MatmulOp op) {
  if (op.getAux())
    return op.getAux();
  OpBuilder b(op);
  auto rows = static_cast<int64_t>(op.getM());
  auto type = RankedTensorType::get(
      {rows, plan::getMaskBytes(static_cast<int64_t>(op.getN()))},
      b.getIntegerType(8, /*isSigned=*/false));
  auto keeping = cast<plan::MatmulOp>(
      b.create(op.getLoc(), op->getName().getIdentifier(), op->getOperands(),
               TypeRange{op.getC().getType(), type}, op->getAttrs()));
  op.getC().replaceAllUsesWith(keeping.getC());
  op.erase();
  return keeping.getAux();
}

/// Replaces a value of one element by the scalar `number`, reshaped to its
/// type.
static void replaceByNumber(Value value, Value number) {
  OpBuilder b(value.getContext());
  b.setInsertionPointAfterValue(number);
  if (value.getType() != number.getType())
    number = stablehlo::ReshapeOp::create(b, value.getLoc(), value.getType(),
                                          number);
  value.replaceAllUsesWith(number);
}

void FormEpiloguesPass::apply(const Chain &chain) {
  plan::MatmulOp op = chain.product;
  OpBuilder b(op);
  Value bias, saved = chain.geluInput;
  Value into = chain.cast ? getMultiplier(chain) : Value();
  SmallVector<int64_t> offsets(op.getOffsets()), strides(op.getCStrides());
  if (chain.isTurned)
    strides = strides[1] == 1
                  ? SmallVector<int64_t>{1, static_cast<int64_t>(op.getM())}
                  : SmallVector<int64_t>{static_cast<int64_t>(op.getN()), 1};
  if (chain.bias) {
    Vector added = *getAdded(chain);
    bias = added.base;
    offsets.push_back(added.offset);
  }
  if (chain.clamped)
    saved = getMask(chain.clamped);
  for (Value read : {bias, saved})
    if (Operation *maker = read ? read.getDefiningOp() : nullptr;
        maker && b.getInsertionPoint()->isBeforeInBlock(maker))
      b.setInsertionPointAfter(maker);
  RankedTensorType type = typeOf(chain.values.front());
  Type aux = chain.kept.empty() ? Type() : type;
  if (!chain.amaxes.empty())
    aux = RankedTensorType::get({}, b.getF32Type());
  auto product = plan::MatmulOp::create(
      b, op.getLoc(), type, aux, op.getA(), op.getB(), op.getScales(), bias,
      saved, into, op.getM(), op.getN(), op.getK(), op.getAStrides(),
      op.getBStrides(), strides, offsets, op.getBatch(), op.getBatchStrides(),
      op.getAlpha(), op.getFastAccumulation(), op.getTf32(), op.getAScaling(),
      op.getBScaling(), chain.epilogue());
  product->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  for (Value value : chain.values)
    value.replaceAllUsesWith(product.getC());
  for (Value value : chain.kept)
    value.replaceAllUsesWith(product.getAux());
  for (Value amax : chain.amaxes)
    replaceByNumber(amax, product.getAux());
  for (stablehlo::CompareOp sign : chain.signs)
    sign->setOperand(isZero(sign.getRhs()) ? 0 : 1, product.getC());
  ++numEpilogues;
}

void FormEpiloguesPass::form(plan::MatmulOp op) {
  Chain chain;
  chain.product = op;
  chain.values = {op.getC()};
  std::optional<Chain> best;
  std::string why;
  SmallVector<std::optional<Chain> (*)(Chain)> steps = {fuseBias, fuseReLU};
  if (isLoose())
    steps.append({fuseGELU, fuseGELUGradient, fuseReLUGradient});
  steps.append({fuseRounding, castToFP8});
  for (auto *step : steps) {
    std::optional<Chain> longer = step(chain);
    if (!longer)
      continue;
    chain = *longer;
    // FP8 data are stored for any user; wide results only if they are stored
    // anyway, since kernels compute them from the product themselves.
    bool isCheap = chain.epilogue() == plan::Epilogue::None || isLoose();
    if (chain.cast ? !isCheap : llvm::none_of(chain.values, isStored))
      continue;
    why = whyNot(chain);
    if (why.empty())
      best = chain;
  }
  if (!why.empty())
    op.emitRemark("the product's epilogue is done by a kernel, not by the "
                  "library: ")
        << why;
  if (best)
    apply(*best);
}

void FormEpiloguesPass::runOnOperation() {
  Block &block = getOperation().getBody().front();
  SmallVector<plan::MatmulOp> products(block.getOps<plan::MatmulOp>());
  for (plan::MatmulOp product : products)
    form(product);
  stablehlo::eraseDeadOps(block);
}
