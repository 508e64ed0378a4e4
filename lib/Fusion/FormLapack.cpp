//===- FormLapack.cpp - Calls of LAPACK -----------------------------------===//

#include "Expansions.h"
#include "LapackCalls.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_FORMLAPACK
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
struct FormLapackPass : scalify::impl::FormLapackBase<FormLapackPass> {
  void runOnOperation() override;
};
} // namespace

/// Sets the other triangle of a Cholesky factor, or of a part of it, to zero,
/// and a factor of a matrix that is not positive definite to NaN.
static Value finishFactor(ImplicitLocOpBuilder &b, Value factor, Value info,
                          bool isLower) {
  using namespace stablehlo;
  RankedTensorType type = typeOf(factor);
  RankedTensorType indices = type.clone(b.getI32Type());
  int64_t rank = type.getRank();
  Value rows = IotaOp::create(b, indices, rank - 2);
  Value cols = IotaOp::create(b, indices, rank - 1);
  Value inside = CompareOp::create(
      b, isLower ? rows : cols, isLower ? cols : rows, ComparisonDirection::GE);
  Value zeros = spreadOver(b, zeroOf(b, type.getElementType()), type);
  Value triangle = SelectOp::create(b, type, inside, factor, zeros);
  Value none = spreadOver(b, zeroOf(b, b.getI32Type()), info.getType());
  Value isDone = CompareOp::create(b, info, none, ComparisonDirection::EQ);
  auto batch = llvm::to_vector(llvm::seq<int64_t>(0, rank - 2));
  Value chosen =
      BroadcastInDimOp::create(b, type.clone(b.getI1Type()), isDone, batch);
  auto element = cast<FloatType>(type.getElementType());
  Value nan = stablehlo::ConstantOp::create(
      b, SplatElementsAttr::get(type,
                                APFloat::getQNaN(element.getFloatSemantics())));
  return SelectOp::create(b, type, chosen, triangle, nan);
}

/// Converts the operands and results of a solver of 16 bits, which LAPACK
/// lacks.
static SmallVector<Value> formWide(ImplicitLocOpBuilder &b, Operation *op);

static bool isComplex(Type type) {
  return isa<ComplexType>(getElementTypeOrSelf(type));
}

/// Appends a value, or the parts of one of complex numbers.
static void addParts(ImplicitLocOpBuilder &b, Value value,
                     SmallVectorImpl<Value> &parts) {
  if (!isComplex(value.getType())) {
    parts.push_back(value);
  } else if (auto joined = value.getDefiningOp<stablehlo::ComplexOp>()) {
    parts.append({joined.getLhs(), joined.getRhs()});
  } else {
    parts.push_back(stablehlo::RealOp::create(b, value));
    parts.push_back(stablehlo::ImagOp::create(b, value));
  }
}

static void addTypes(Type type, SmallVectorImpl<Type> &types) {
  if (!isComplex(type)) {
    types.push_back(type);
    return;
  }
  auto tensor = cast<RankedTensorType>(type);
  types.append(
      2, tensor.clone(
             cast<ComplexType>(tensor.getElementType()).getElementType()));
}

/// Takes a value, or joins the parts of one of complex numbers, from `parts`.
static Value takeValue(ImplicitLocOpBuilder &b, Type type, ValueRange &parts) {
  Value first = parts.front();
  parts = parts.drop_front();
  if (!isComplex(type))
    return first;
  Value second = parts.front();
  parts = parts.drop_front();
  return stablehlo::ComplexOp::create(b, first, second);
}

static SmallVector<Value> form(ImplicitLocOpBuilder &b, Operation *op) {
  if (isa<stablehlo::CholeskyOp, stablehlo::TriangularSolveOp>(op) &&
      stablehlo::getElementBits(op->getResult(0).getType()) == 16)
    return formWide(b, op);
  LapackMatch match = *matchLapack(op);
  SmallVector<Type> types;
  for (unsigned result : match.results)
    addTypes(op->getResult(result).getType(), types);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    addParts(b, operand, operands);
  auto cholesky = dyn_cast<stablehlo::CholeskyOp>(op);
  if (cholesky) // its info, which the op does not have
    types.push_back(RankedTensorType::get(
        typeOf(cholesky.getA()).getShape().drop_back(2), b.getI32Type()));
  auto call =
      plan::FactorizeOp::create(b, types, match.routine, operands, match.sizes,
                                match.letters, match.isComplex);
  SmallVector<Value> made(call.getResults());
  if (cholesky)
    for (Value &part : MutableArrayRef(made).drop_back())
      part = finishFactor(b, part, made.back(), cholesky.getLower());
  // Unused results have no value.
  SmallVector<Value> values(op->getNumResults());
  ValueRange rest(made);
  for (unsigned result : match.results)
    values[result] = takeValue(b, op->getResult(result).getType(), rest);
  return values;
}

static SmallVector<Value> formWide(ImplicitLocOpBuilder &b, Operation *op) {
  Operation *wide = b.clone(*op);
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  for (OpOperand &operand : wide->getOpOperands()) {
    b.setInsertionPoint(wide);
    operand.set(stablehlo::ConvertOp::create(b, operand.get(), b.getF32Type()));
  }
  Value result = wide->getResult(0);
  result.setType(typeOf(result).clone(b.getF32Type()));
  SmallVector<Value> values = form(b, wide);
  b.setInsertionPoint(op);
  wide->erase();
  return {stablehlo::ConvertOp::create(b, values[0], element)};
}

/// Replaces a result; what takes a part of it takes the part of `value`.
static void replaceResult(Value result, Value value) {
  auto joined = value.getDefiningOp<stablehlo::ComplexOp>();
  for (Operation *user : llvm::make_early_inc_range(result.getUsers())) {
    bool isReal = isa<stablehlo::RealOp>(user);
    if (!joined || (!isReal && !isa<stablehlo::ImagOp>(user)))
      continue;
    user->getResult(0).replaceAllUsesWith(isReal ? joined.getLhs()
                                                 : joined.getRhs());
    user->erase();
  }
  result.replaceAllUsesWith(value);
}

void FormLapackPass::runOnOperation() {
  SmallVector<Operation *> ops;
  getOperation().walk([&](Operation *op) {
    if (matchLapack(op))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    ImplicitLocOpBuilder b(op->getLoc(), op);
    Operation *last = op->getPrevNode();
    SmallVector<Value> values = form(b, op);
    Operation *made = last ? last->getNextNode() : &op->getBlock()->front();
    for (; made != op; made = made->getNextNode())
      copyPhase(op, made);
    for (auto [result, value] : llvm::zip(op->getResults(), values))
      if (value)
        replaceResult(result, value);
    op->erase();
  }
  // Parts were joined for uses that now take the parts.
  getOperation().walk([](stablehlo::ComplexOp joined) {
    if (joined->use_empty())
      joined.erase();
  });
  numFormed += ops.size();
}
