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
class FormLapackPass : public scalify::impl::FormLapackBase<FormLapackPass> {
public:
  using FormLapackBase::FormLapackBase;
  void runOnOperation() override;
};
} // namespace

/// Sets the other triangle of a Cholesky factor to zero, and a factor of a
/// matrix that is not positive definite to NaN.
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

static SmallVector<Value> form(ImplicitLocOpBuilder &b, Operation *op) {
  if (isa<stablehlo::CholeskyOp, stablehlo::TriangularSolveOp>(op) &&
      stablehlo::getElementBits(op->getResult(0).getType()) == 16)
    return formWide(b, op);
  LapackMatch match = *matchLapack(op);
  SmallVector<Type> types;
  for (unsigned result : match.results)
    types.push_back(op->getResult(result).getType());
  auto cholesky = dyn_cast<stablehlo::CholeskyOp>(op);
  if (cholesky) // its info, which the op does not have
    types.push_back(RankedTensorType::get(
        typeOf(cholesky.getA()).getShape().drop_back(2), b.getI32Type()));
  auto call = plan::FactorizeOp::create(
      b, types, match.routine, op->getOperands(), match.sizes, match.letters);
  if (cholesky)
    return {finishFactor(b, call.getResult(0), call.getResult(1),
                         cholesky.getLower())};
  // Unused results have no value.
  SmallVector<Value> values(op->getNumResults(), call.getResult(0));
  for (auto [i, result] : llvm::enumerate(match.results))
    values[result] = call.getResult(i);
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
    op->replaceAllUsesWith(values);
    op->erase();
  }
  numFormed += ops.size();
}
