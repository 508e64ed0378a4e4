//===- Activations.cpp - Error functions, and products with a sigmoid -----===//

#include "scalify/Idioms/Idioms.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;
using namespace scalify::idioms;

using Gate = GatedValue::Gate;

/// Matches select(|x| < 1/2, near, far), where far is a product with the sign
/// of x, or for erfc selects between a tail and 2 - tail.
std::optional<ErrorFunction> idioms::matchErrorFunction(Value value) {
  auto select = value.getDefiningOp<SelectOp>();
  auto isNear =
      select ? select.getPred().getDefiningOp<CompareOp>() : CompareOp();
  auto magnitude = isNear ? isNear.getLhs().getDefiningOp<AbsOp>() : AbsOp();
  if (!magnitude || getSplat(isNear.getRhs()) != 0.5)
    return std::nullopt;
  bool isComplement =
      static_cast<bool>(select.getOnFalse().getDefiningOp<SelectOp>());
  auto far = select.getOnFalse().getDefiningOp<MulOp>();
  if (!isComplement && !(far && far.getLhs().getDefiningOp<SignOp>()))
    return std::nullopt;
  return ErrorFunction{magnitude->getOperand(0), isComplement};
}

/// Returns g, with its operand as input, if `value` is one. For a proof nothing
/// is looked through.
static std::optional<GatedValue> matchGate(Value value, MatchFor purpose) {
  bool isProof = purpose == MatchFor::Proof;
  auto peel = [&](Value x) { return isProof ? x : peelToSource(x); };
  value = peel(value);
  Operation *op = value.getDefiningOp();
  if (auto match = matchErrorFunction(value); match && match->isComplement)
    return GatedValue{match->input, Gate::ErrorFunction, 2};
  if (isa_and_nonnull<LogisticOp>(op))
    return GatedValue{op->getOperand(0), Gate::Logistic, 1};
  if (!isa_and_nonnull<AddOp, DivOp>(op))
    return std::nullopt;
  // 1 + tanh(u), 1 + erf(u), and 1 / (1 + exp(-x)), as JAX writes logistic(x).
  bool isQuotient = isa<DivOp>(op);
  auto sum = isQuotient ? peel(op->getOperand(1)).getDefiningOp<AddOp>()
                        : cast<AddOp>(op);
  if (!sum || (isQuotient && getSplat(op->getOperand(0)) != 1.0))
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    Value other = peel(sum->getOperand(1 - i));
    if (getSplat(sum->getOperand(i)) != 1.0)
      continue;
    if (auto exp = other.getDefiningOp<ExpOp>(); exp && isQuotient) {
      auto negate = exp.getOperand().getDefiningOp<NegOp>();
      if (negate || !isProof)
        return GatedValue{negate ? negate.getOperand() : exp.getOperand(),
                          Gate::Logistic, 1};
    }
    if (auto tanh = other.getDefiningOp<TanhOp>(); tanh && !isQuotient)
      return GatedValue{tanh.getOperand(), Gate::Tanh, 2};
    auto match = matchErrorFunction(other);
    if (match && !match->isComplement && !isQuotient)
      return GatedValue{match->input, Gate::ErrorFunction, 2};
  }
  return std::nullopt;
}

/// True if a few elementwise ops lead from `x` to `value`.
static bool dependsOn(Value value, Value x, unsigned depth) {
  value = peelToSource(value);
  if (value == x)
    return true;
  Operation *op = value.getDefiningOp();
  if (!depth || !isa_and_nonnull<AddOp, MulOp, NegOp, DivOp, SubtractOp>(op))
    return false;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    return dependsOn(operand, x, depth - 1);
  });
}

/// Collects the factors of a product, with constants multiplied into
/// `constant`.
static void collectFactors(Value value, unsigned depth, double &constant,
                           SmallVectorImpl<Value> &factors) {
  if (std::optional<double> splat = getSplat(value)) {
    constant *= *splat;
    return;
  }
  auto product = peelToSource(value).getDefiningOp<MulOp>();
  if (!product || !depth || product.getLhs() == product.getRhs()) {
    factors.push_back(peelToSource(value));
    return;
  }
  collectFactors(product.getLhs(), depth - 1, constant, factors);
  collectFactors(product.getRhs(), depth - 1, constant, factors);
}

std::optional<GatedValue> idioms::matchGatedValue(Operation *op,
                                                  MatchFor purpose) {
  if (!isa<MulOp>(op) || op->getOperand(0) == op->getOperand(1))
    return std::nullopt;
  bool isProof = purpose == MatchFor::Proof;
  double constant = 1;
  SmallVector<Value> factors;
  if (isProof)
    factors.append(op->operand_begin(), op->operand_end());
  else
    collectFactors(op->getResult(0), 3, constant, factors);
  if (factors.size() != 2)
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    Value x = factors[i];
    std::optional<GatedValue> gate = matchGate(factors[1 - i], purpose);
    if (!gate ||
        (isProof ? gate->gate != Gate::Logistic || !isSame(gate->input, x)
                 : !dependsOn(gate->input, x, 5)))
      continue;
    return GatedValue{x, gate->gate, constant * gate->top,
                      coarserOf(getCoarsest(x), getCoarsest(gate->input))};
  }
  return std::nullopt;
}
