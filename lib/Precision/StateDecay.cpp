//===- StateDecay.cpp - How fast state forgets its old value --------------===//

#include "StateDecay.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace scalify;

static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

namespace {
class DecayFinder {
public:
  explicit DecayFinder(Value own);
  /// `isWhole`: the value is an alternative of the new state, not a term of it.
  std::optional<double> find(Value value, bool isWhole) const;

private:
  std::optional<double> findOfAlternatives(ValueRange values,
                                           bool isWhole) const;
  std::optional<double> findOfLoop(stablehlo::WhileOp loop,
                                   unsigned result) const;
  std::optional<double> findOfProduct(Operation *op) const;
  bool hasScalarBounds(Operation *extremum) const;

  Value own;
  /// All values that depend on the old state.
  llvm::SetVector<Value> followers;
};
} // namespace

DecayFinder::DecayFinder(Value own) : own(own) {
  followers.insert(own);
  for (size_t i = 0; i < followers.size(); ++i)
    for (Operation *user : followers[i].getUsers()) {
      for (Region &region : user->getRegions())
        followers.insert(region.args_begin(), region.args_end());
      for (Operation *op = user;
           op && !op->hasTrait<OpTrait::IsIsolatedFromAbove>();
           op = op->getParentOp())
        followers.insert(op->result_begin(), op->result_end());
    }
}

std::optional<double> DecayFinder::findOfAlternatives(ValueRange values,
                                                      bool isWhole) const {
  double largest = 0;
  for (Value value : values) {
    std::optional<double> factor = find(value, isWhole);
    if (!factor)
      return std::nullopt;
    if (std::isnan(*factor) || std::fabs(*factor) > std::fabs(largest))
      largest = *factor;
  }
  return largest;
}

/// A sum over the iterations of a loop is one over all steps as well.
std::optional<double> DecayFinder::findOfLoop(stablehlo::WhileOp loop,
                                              unsigned result) const {
  for (OpOperand &operand : loop->getOpOperands())
    if (operand.getOperandNumber() != result &&
        followers.contains(operand.get()))
      return kUnknown;
  Block &body = loop.getBody().front();
  std::optional<double> before =
      find(loop->getOperand(result), /*isWhole=*/false);
  std::optional<double> each = findDecay(
      body.getArgument(result), body.getTerminator()->getOperand(result));
  if (!before || !each)
    return std::nullopt;
  return *before * *each;
}

std::optional<double> DecayFinder::findOfProduct(Operation *op) const {
  bool isFirst = followers.contains(op->getOperand(0));
  if (isFirst && followers.contains(op->getOperand(1)))
    return std::nullopt;
  DenseFPElementsAttr number;
  Value other = lookThrough(op->getOperand(isFirst ? 1 : 0),
                            Move::Broadcast | Move::Reshape | Move::Convert);
  if (isa<stablehlo::DivOp>(op) && !isFirst)
    return std::nullopt;
  double scale = kUnknown;
  if (matchPattern(other, m_Constant(&number))) {
    if (!number.isSplat())
      return std::nullopt;
    scale = number.getSplatValue<APFloat>().convertToDouble();
  } else if (cast<ShapedType>(other.getType()).getRank() != 0) {
    return std::nullopt;
  }
  std::optional<double> factor =
      find(op->getOperand(isFirst ? 0 : 1), /*isWhole=*/false);
  if (!factor)
    return std::nullopt;
  return isa<stablehlo::DivOp>(op) ? *factor / scale : *factor * scale;
}

/// True if one operand follows the state, and the others are one number each.
bool DecayFinder::hasScalarBounds(Operation *extremum) const {
  return llvm::count_if(extremum->getOperands(), [&](Value operand) {
           if (followers.contains(operand))
             return true;
           operand = lookThrough(operand, Move::Broadcast | Move::Reshape |
                                              Move::Convert);
           DenseElementsAttr number;
           bool isConstant = matchPattern(operand, m_Constant(&number));
           return isConstant
                      ? !number.isSplat()
                      : cast<ShapedType>(operand.getType()).getRank() != 0;
         }) == 1;
}

std::optional<double> DecayFinder::find(Value value, bool isWhole) const {
  if (value == own)
    return isWhole ? 0 : 1;
  if (!followers.contains(value))
    return 0;
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return kUnknown;
  Operation *op = result.getOwner();
  unsigned number = result.getResultNumber();
  if (isa<stablehlo::ConvertOp, stablehlo::ReshapeOp,
          stablehlo::OptimizationBarrierOp>(op))
    return find(op->getOperand(number), isWhole);
  if (isa<stablehlo::SelectOp>(op))
    return findOfAlternatives(op->getOperands().drop_front(), isWhole);
  if (isa<stablehlo::MaxOp, stablehlo::MinOp, stablehlo::ClampOp>(op))
    return hasScalarBounds(op) ? findOfAlternatives(op->getOperands(), isWhole)
                               : std::nullopt;
  if (isa<stablehlo::CaseOp, stablehlo::IfOp>(op)) {
    SmallVector<Value> values;
    for (Region &region : op->getRegions())
      values.push_back(region.front().getTerminator()->getOperand(number));
    return findOfAlternatives(values, isWhole);
  }
  if (auto loop = dyn_cast<stablehlo::WhileOp>(op))
    return findOfLoop(loop, number);
  if (isa<stablehlo::MulOp, stablehlo::DivOp>(op))
    return findOfProduct(op);
  if (isa<stablehlo::NegOp>(op)) {
    std::optional<double> factor = find(op->getOperand(0), /*isWhole=*/false);
    return factor ? std::optional(-*factor) : std::nullopt;
  }
  if (!isa<stablehlo::AddOp, stablehlo::SubtractOp>(op))
    return op->hasTrait<OpTrait::Elementwise>() ? std::nullopt
                                                : std::optional(kUnknown);
  std::optional<double> lhs = find(op->getOperand(0), /*isWhole=*/false);
  std::optional<double> rhs = find(op->getOperand(1), /*isWhole=*/false);
  if (!lhs || !rhs)
    return std::nullopt;
  return isa<stablehlo::AddOp>(op) ? *lhs + *rhs : *lhs - *rhs;
}

std::optional<double> scalify::findDecay(Value own, Value written) {
  return DecayFinder(own).find(written, /*isWhole=*/true);
}
