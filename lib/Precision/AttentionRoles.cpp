//===- AttentionRoles.cpp - Dots of softmax attention ---------------------===//
//
// Of the dots on two activations under batch dimensions, those belong to
// softmax attention that are connected, without a dot between, to scores whose
// exponentials another dot reads. Among them the scores come first. The dot
// that follows them multiplies the values by them. The gradient of the scores
// follows the gradient of that product.
//
// All others are products: of linear attention, retention, experts' dispatch.
// The rows of a softmax have one sum, so rounding moves the result by no more
// than its own size. Rows of other products may vanish, and a norm or a
// quotient after them then amplifies the rounding without a limit.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/StageBorders.h"
#include "scalify/Precision/DotRoles.h"

#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
using namespace scalify;

namespace {
class AttentionFinder {
public:
  explicit AttentionFinder(DenseMap<Operation *, DotRole> &roles)
      : roles(roles) {}

  /// Visits ops in program order.
  void visit(Operation *op);
  /// Gives dots that are not connected to exponentials their role.
  void separateProducts();

private:
  /// The product that a value follows without another dot between.
  struct Following {
    Operation *dot;
    bool isExponential;
  };
  std::optional<Following> lookup(Value value) const;
  void visitDot(Operation *dot);
  void visitPlaces(Operation *op);

  DenseMap<Operation *, DotRole> &roles;
  DenseMap<Value, Following> following;
  llvm::EquivalenceClasses<Operation *> connected;
  SmallVector<Operation *> readers; // of exponentials
};
} // namespace

std::optional<AttentionFinder::Following>
AttentionFinder::lookup(Value value) const {
  auto it = following.find(value);
  if (it == following.end())
    it = following.find(getOrigin(value));
  if (it == following.end())
    return std::nullopt;
  return it->second;
}

void AttentionFinder::visitDot(Operation *dot) {
  auto role = roles.find(dot);
  if (role == roles.end() || role->second != DotRole::AttentionQK)
    return;
  connected.insert(dot);
  bool hasGradient = llvm::any_of(dot->getOperands(), [](Value operand) {
    return isGradient(getDotOperandRoot(operand));
  });
  bool isLate = false, readsExponential = false;
  for (Value operand : dot->getOperands()) {
    std::optional<Following> found = lookup(operand);
    if (!found)
      continue;
    connected.unionSets(dot, found->dot);
    readsExponential |= found->isExponential;
    isLate |= !hasGradient || isGradient(getDotOperandRoot(operand));
  }
  if (hasGradient)
    role->second = isLate ? DotRole::AttentionDS : DotRole::AttentionPV;
  else if (isLate)
    role->second = DotRole::AttentionPV;
  if (readsExponential)
    readers.push_back(dot);
  following[dot->getResult(0)] = {dot, false};
}

/// Results follow from the operands and returned values in their places.
void AttentionFinder::visitPlaces(Operation *op) {
  for (OpResult result : op->getResults()) {
    unsigned index = result.getResultNumber();
    SmallVector<Value> sources;
    if (op->getNumOperands() == op->getNumResults())
      sources.push_back(op->getOperand(index));
    for (Region &region : op->getRegions())
      if (Operation *end = region.front().getTerminator();
          end->getNumOperands() == op->getNumResults())
        sources.push_back(end->getOperand(index));
    for (Value source : sources)
      if (std::optional<Following> found = lookup(source))
        following[result] = *found;
  }
}

void AttentionFinder::visit(Operation *op) {
  if (isContraction(op))
    return visitDot(op);
  if (stablehlo::isControlFlow(op) || stablehlo::isPlainBarrier(op))
    return visitPlaces(op);
  if (op->getNumResults() == 0)
    return;
  std::optional<Following> made;
  for (Value operand : op->getOperands())
    if (std::optional<Following> found = lookup(operand)) {
      if (made)
        connected.unionSets(made->dot, found->dot);
      made = {found->dot,
              found->isExponential || (made && made->isExponential)};
    }
  if (!made)
    return;
  made->isExponential |= isa<stablehlo::ExpOp>(op);
  for (Value result : op->getResults())
    following[result] = *made;
}

void AttentionFinder::separateProducts() {
  DenseSet<Operation *> attention;
  for (Operation *dot : readers)
    attention.insert(connected.getLeaderValue(dot));
  for (const auto *member : connected)
    if (!attention.contains(connected.getLeaderValue(member->getData())))
      roles[member->getData()] = DotRole::Product;
}

void DotRoles::findAttention(FunctionOpInterface func) {
  AttentionFinder finder(roles);
  func.getFunctionBody().walk([&](Operation *op) { finder.visit(op); });
  finder.separateProducts();
}
