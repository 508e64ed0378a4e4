//===- DotRoles.cpp - The role of each dot in the model -------------------===//
//
// A linear layer multiplies by an argument of the step; attention and other
// products multiply two activations under batch dimensions (AttentionRoles).
// The head is the linear layer whose result reaches the loss without another
// linear layer, or, without a backward, a result of the step: inference
// computes as training did. A product of activations after the head, as in a
// contrastive loss or with labels, has the same role.
//
// A router is a layer whose result is sorted, or searched for its maximum, if
// the choice selects values that the layer did not compute (rows of a table,
// activations) on the way to other dots. It is the last layer before the
// choice: an encoder whose output a dot compares with codes is no router.
//
// The gradients of heads and routers are the dots on their weight, and the dots
// of their input and the gradient of their output (LayerTable).
//
// Values are identified by their origin, so that loops do not hide them.
//
//===----------------------------------------------------------------------===//

#include "scalify/Precision/DotRoles.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/StageBorders.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;
using stablehlo::DotGeneralOp;

Value scalify::getDotOperandRoot(Value operand) {
  while (true) {
    operand = lookThrough(operand, Move::Invariant);
    Operation *op = operand.getDefiningOp();
    if (isa_and_present<ScaleHintOp, stablehlo::ReshapeOp,
                        stablehlo::TransposeOp, stablehlo::ReverseOp>(op))
      operand = op->getOperand(0);
    else if (stablehlo::isPlainBarrier(op))
      operand = op->getOperand(cast<OpResult>(operand).getResultNumber());
    else
      return operand;
  }
}

/// True if the origin of the root is an argument of the step.
static bool isWeight(Value root) { return getStepArgument(root) != nullptr; }

static bool isOptimizer(Operation *op) {
  return getPhase(op) == Phase::Optimizer;
}

static bool isForward(Operation *op) { return getPhase(op) == Phase::Forward; }

/// True if the op turns an operand into indices, as an argmax does. A gather by
/// these starts a new chain: a token drawn from the logits is no part of their
/// layer.
static bool isIndexResult(Value result, Value operand) {
  auto isIndex = [](Value value) {
    Type type = getElementTypeOrSelf(value.getType());
    return isa<IntegerType>(type) && !type.isInteger(1);
  };
  return isIndex(result) && !isIndex(operand) &&
         !isa_and_present<stablehlo::BitcastConvertOp>(result.getDefiningOp());
}

/// Returns the values that a use in the forward leads to. A barrier, as around
/// a checkpoint's rematerialisation, only moves data, whatever its phase.
static SmallVector<Value> getForwardFollowers(OpOperand &use) {
  Operation *user = use.getOwner();
  if (stablehlo::isPlainBarrier(user))
    return {user->getResult(use.getOperandNumber())};
  if (!stablehlo::isControlFlow(user) && !isForward(user))
    return {};
  return stablehlo::getFollowers(use);
}

/// True if forward ops lead from `value` to a use for which `isFound` holds,
/// without an index, or an op for which `isEnd` holds, between.
static bool reaches(Value value, function_ref<bool(OpOperand &)> isFound,
                    function_ref<bool(Operation *)> isEnd) {
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i) {
    Value next = reached[i];
    for (OpOperand &use : next.getUses()) {
      SmallVector<Value> followers = getForwardFollowers(use);
      if (followers.empty())
        continue;
      if (isFound(use))
        return true;
      if (isEnd(use.getOwner()))
        continue;
      for (Value follower : followers)
        if (!isIndexResult(follower, next))
          reached.insert(follower);
    }
  }
  return false;
}

/// True if the op sorts by the used value, or searches its maximum: a key of a
/// sort, or the values of a reduction that also reduces their positions.
static bool isSelectionKey(OpOperand &use) {
  Operation *user = use.getOwner();
  if (!isa<FloatType>(getElementTypeOrSelf(use.get().getType())))
    return false;
  unsigned index = use.getOperandNumber();
  if (auto sort = dyn_cast<stablehlo::SortOp>(user))
    return !sort.getComparator().getArgument(2 * index).use_empty();
  auto reduce = dyn_cast<stablehlo::ReduceOp>(user);
  return reduce && reduce.getInputs().size() == 2 && index < 2 &&
         isa<IntegerType>(
             getElementTypeOrSelf(reduce.getInputs()[1 - index].getType()));
}

/// Returns the sorts and maximum searches on values that are computed from
/// `value` without a dot between.
static DenseSet<Operation *> findChoices(Value value) {
  DenseSet<Operation *> found;
  auto add = [&](OpOperand &use) {
    if (isSelectionKey(use))
      found.insert(use.getOwner());
    return false;
  };
  reaches(value, add, isContraction);
  return found;
}

/// True if the dot multiplies two activations under batch dimensions.
static bool isAttention(DotGeneralOp dot) {
  return !isWeight(dot.getLhs()) && !isWeight(dot.getRhs()) &&
         !dot.getDotDimensionNumbers().getLhsBatchingDimensions().empty();
}

/// True for a weight, and for a value computed from weights alone: gathered
/// from shards, or normalised.
static bool isWeightOrDerived(Value value) {
  return isWeight(value) || isComputedFromWeights(value);
}

/// True for an argument that is batch: labels, a graph's adjacency.
static bool isBatch(Value value) {
  return isWeight(value) && !getWeight(value);
}

/// Returns the operand that is a layer's weight if the other one is not. An
/// argument that is batch is no weight. Null if neither or both may be weights.
static Value getLayerWeight(DotGeneralOp dot) {
  auto mayBeWeight = [](Value value) {
    return isWeightOrDerived(value) && !isBatch(value);
  };
  bool isLeft = mayBeWeight(dot.getLhs()), isRight = mayBeWeight(dot.getRhs());
  return isLeft == isRight ? Value() : isLeft ? dot.getLhs() : dot.getRhs();
}

/// True if the op multiplies by a weight, or two arguments of the step. A
/// product of an activation with the batch, as with a graph's adjacency, is no
/// layer.
static bool isLayer(Operation *op) {
  auto dot = dyn_cast<DotGeneralOp>(op);
  if (!dot)
    return isContraction(op);
  Value lhs = dot.getLhs(), rhs = dot.getRhs();
  bool isLeft = isWeightOrDerived(lhs), isRight = isWeightOrDerived(rhs);
  return !isAttention(dot) &&
         (isLeft ? isRight || !isBatch(lhs) : isRight && !isBatch(rhs));
}

/// True if the value is computed from a layer's result without another dot
/// between.
static bool isLayerResult(Value value) {
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i) {
    Operation *op = getOrigin(reached[i]).getDefiningOp();
    if (!op || stablehlo::isControlFlow(op))
      continue;
    if (!isContraction(op))
      reached.insert_range(op->getOperands());
    else if (isLayer(op))
      return true;
  }
  return false;
}

/// True if the op multiplies the result of a layer by no weight, as a
/// contrastive loss multiplies two projections and another one logits and
/// labels: without batch dimensions, unlike attention.
static bool isProductOfLayers(Operation *op) {
  auto dot = dyn_cast<DotGeneralOp>(op);
  return dot && !isLayer(dot) && !isAttention(dot) &&
         llvm::any_of(dot->getOperands(), isLayerResult);
}

static bool feedsLayer(OpOperand &use) { return isLayer(use.getOwner()); }

/// Returns the values that identify a layer, also if a checkpoint
/// rematerialises the layer and its weight.
static SmallVector<Value> getWeightKeys(Value weight) {
  if (isWeight(weight))
    return {getStepArgument(weight)};
  SmallVector<Value> behind = getSourceWeights(weight);
  return behind.empty() ? SmallVector<Value>{getOrigin(weight)} : behind;
}

static Value getWeightKey(Value weight) {
  SmallVector<Value> keys = getWeightKeys(weight);
  return keys.size() == 1 ? keys.front() : getOrigin(weight);
}

/// Returns the operand in the place of the weight; the second one for a product
/// of two activations.
static OpOperand &getWeightOperand(DotGeneralOp dot) {
  return dot->getOpOperand(getLayerWeight(dot) == dot.getLhs() ? 0 : 1);
}

static SmallVector<Value> getLayerWeights(DotGeneralOp dot) {
  return getWeightKeys(getWeightOperand(dot).get());
}

void DotRoles::addLayer(DotGeneralOp dot, DotRole role) {
  OpOperand &side = getWeightOperand(dot);
  Value weight = getWeightKey(side.get());
  layers.addForward(weight, side.get(),
                    dot->getOperand(1 - side.getOperandNumber()));
  if (role == DotRole::Linear)
    return;
  roles[dot] = role;
  layerRoles[weight] = role;
}

/// Returns the role of the layer of which the dot computes a gradient, perhaps
/// one per example, or of which, with its weight, it repeats the forward.
std::optional<DotRole> DotRoles::findLayerRole(DotGeneralOp dot) const {
  auto getRole = [&](Value weight) {
    auto role = layerRoles.find(weight);
    return role == layerRoles.end() ? DotRole::Linear : role->second;
  };
  auto findRole = [&](auto isKind) -> std::optional<DotRole> {
    for (Value operand : dot->getOperands())
      if (Value weight = getWeightKey(operand);
          isKind(operand) && layers.contains(weight))
        return getRole(weight);
    return std::nullopt;
  };
  // A gradient may be computed from a later layer's weight alone, as that of a
  // sum is. So operands that are weights themselves have precedence, and then
  // pairs of input and output gradient.
  if (std::optional<DotRole> role = findRole(isWeight))
    return role;
  std::optional<DotRole> found;
  if (!isForward(dot))
    for (Value weight : layers.findWeights(dot)) {
      DotRole role = getRole(weight);
      // If ambiguous, prefer a role that the recipe may keep wide.
      if (!found || *found == DotRole::Linear)
        found = role;
    }
  if (!found)
    found = findRole([](Value value) { return !isWeight(value); });
  return found;
}

/// True if the root tests integers for equality, as rows of an identity matrix
/// are made.
static bool isOneHot(Value root) {
  while (auto convert = root.getDefiningOp<stablehlo::ConvertOp>())
    root = getDotOperandRoot(convert.getOperand());
  auto compare = root.getDefiningOp<stablehlo::CompareOp>();
  return compare &&
         compare.getComparisonDirection() ==
             stablehlo::ComparisonDirection::EQ &&
         isa<IntegerType>(getElementTypeOrSelf(compare.getLhs().getType()));
}

/// True if the value is computed from the batch or from a layer's result: it is
/// no weight, constant or random number.
static bool isActivation(Value value) {
  if (isWeightOrDerived(value))
    return false;
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i) {
    Value next = getOrigin(reached[i]);
    if (!isa<FloatType>(getElementTypeOrSelf(next.getType())))
      continue;
    Operation *op = next.getDefiningOp();
    if (!op && !isWeightOrDerived(next))
      return true;
    if (!op)
      continue;
    if (isContraction(op) || stablehlo::isControlFlow(op) ||
        isa<stablehlo::GatherOp>(op))
      return true;
    reached.insert_range(op->getOperands());
  }
  return false;
}

/// Returns the forward values that are computed from `values` before the next
/// dots.
static llvm::SetVector<Value> findForwardDependents(ValueRange values) {
  llvm::SetVector<Value> made(values.begin(), values.end());
  for (size_t i = 0; i < made.size(); ++i)
    for (OpOperand &use : made[i].getUses())
      if (!isContraction(use.getOwner()))
        made.insert_range(getForwardFollowers(use));
  return made;
}

/// True if the use of a choice selects among values that are not in `own`, the
/// values of the layer before the choice: rows of a table, destinations of a
/// scatter, or factors of activations.
static bool selectsOtherValues(OpOperand &use,
                               const llvm::SetVector<Value> &own) {
  Operation *user = use.getOwner();
  auto isOther = [&](OpOperand &other) {
    return &other != &use && !own.contains(other.get()) &&
           isa<FloatType>(getElementTypeOrSelf(other.get().getType()));
  };
  if (isa<stablehlo::GatherOp, stablehlo::DynamicSliceOp>(user))
    return use.getOperandNumber() > 0 && isOther(user->getOpOperand(0)) &&
           (isWeightOrDerived(user->getOperand(0)) ||
            isActivation(user->getOperand(0)));
  bool isRowOfIdentity =
      isContraction(user) && isOneHot(getDotOperandRoot(use.get()));
  if (!isContraction(user) &&
      !isa<stablehlo::MulOp, stablehlo::SelectOp, stablehlo::ScatterOp>(user))
    return false;
  return llvm::any_of(user->getOpOperands(), [&](OpOperand &other) {
    return isOther(other) && (isActivation(other.get()) || isRowOfIdentity);
  });
}

/// True if the results of `choice` select such values on the way to another
/// dot.
static bool isRouting(Operation *choice, const llvm::SetVector<Value> &own) {
  for (Value value : findForwardDependents(choice->getResults()))
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (!isForward(user) || !selectsOtherValues(use, own))
        continue;
      if (isContraction(user) ||
          reaches(user->getResult(0), feedsLayer, isLayer))
        return true;
    }
  return false;
}

/// Returns the layers by whose results ops choose among other values. If a
/// layer is followed by a second one before the choice, as by a comparison with
/// codes, only the second is a router; unless they reach each other, as around
/// a loop.
static SmallVector<DotGeneralOp> findRouters(ArrayRef<DotGeneralOp> layers) {
  llvm::MapVector<DotGeneralOp, DenseSet<Operation *>> choices;
  for (DotGeneralOp dot : layers)
    if (DenseSet<Operation *> own = findChoices(dot.getResult()); !own.empty())
      choices[dot] = std::move(own);
  auto feeds = [](DotGeneralOp dot, DotGeneralOp other) {
    auto isOperand = [&](OpOperand &use) { return use.getOwner() == other; };
    return reaches(dot.getResult(), isOperand, isContraction);
  };
  SmallVector<DotGeneralOp> routers;
  for (auto &entry : choices) {
    DotGeneralOp dot = entry.first;
    llvm::SetVector<Value> own = findForwardDependents(dot->getResults());
    auto isLast = [&](Operation *choice) {
      return llvm::none_of(choices, [&](auto &other) {
        return other.first != dot && other.second.contains(choice) &&
               feeds(dot, other.first) && !feeds(other.first, dot);
      });
    };
    if (llvm::any_of(entry.second, [&](Operation *choice) {
          return isLast(choice) && isRouting(choice, own);
        }))
      routers.push_back(dot);
  }
  return routers;
}

void DotRoles::findHeadsAndRouters(FunctionOpInterface func) {
  // A rematerialised layer reaches gradients only, as a head does. It is no
  // head if an inner layer of the forward has the same weight.
  SmallVector<DotGeneralOp> candidates, inner;
  DenseSet<Value> innerWeights;
  bool hasChoices = false;
  func.getFunctionBody().walk([&](Operation *op) {
    hasChoices |= llvm::any_of(op->getOpOperands(), isSelectionKey);
    auto dot = dyn_cast<DotGeneralOp>(op);
    if (!dot || !isForward(dot))
      return;
    if (isAttention(dot))
      return;
    bool isProduct = isProductOfLayers(dot);
    if (!getLayerWeight(dot) && !isProduct)
      return;
    // Without a backward, a dot of arguments alone may be the only one of the
    // program: no recipe is meant to leave that wide.
    bool isFirst = !backward && isWeightOrDerived(dot.getLhs()) &&
                   isWeightOrDerived(dot.getRhs());
    if (!isFirst && !reaches(dot.getResult(), feedsLayer, isLayer)) {
      candidates.push_back(dot);
      return;
    }
    if (isProduct)
      return;
    inner.push_back(dot);
    innerWeights.insert_range(getLayerWeights(dot));
  });
  for (DotGeneralOp dot : candidates) {
    if (llvm::all_of(getLayerWeights(dot),
                     [&](Value own) { return innerWeights.contains(own); }))
      continue;
    addLayer(dot, DotRole::Head);
  }
  SmallVector<DotGeneralOp> routers;
  if (hasChoices)
    routers = findRouters(
        llvm::to_vector(llvm::concat<DotGeneralOp>(inner, candidates)));
  for (DotGeneralOp dot : inner)
    if (!roles.contains(dot))
      addLayer(dot, llvm::is_contained(routers, dot) ? DotRole::Router
                                                     : DotRole::Linear);
  // The backward multiplies the weight by the output gradient.
  func.getFunctionBody().walk([&](DotGeneralOp dot) {
    if (isForward(dot))
      return;
    for (OpOperand &operand : dot->getOpOperands())
      if (Value weight = getWeightKey(operand.get()); layers.contains(weight))
        layers.addInputGradient(
            weight, dot->getOperand(1 - operand.getOperandNumber()));
  });
}

/// Finds dots of a one-hot and a table, and the backward's dots on the one-hot.
void DotRoles::findEmbeddings(FunctionOpInterface func) {
  DenseSet<Value> oneHots;
  func.getFunctionBody().walk([&](DotGeneralOp dot) {
    Value lhs = getDotOperandRoot(dot.getLhs());
    Value rhs = getDotOperandRoot(dot.getRhs());
    Value oneHot = isOneHot(lhs) ? lhs : isOneHot(rhs) ? rhs : Value();
    if (!oneHot)
      return;
    if (isForward(dot) && isWeight(oneHot == lhs ? rhs : lhs))
      oneHots.insert(oneHot);
    if (oneHots.contains(oneHot))
      roles[dot] = DotRole::Embedding;
  });
}

/// True if an op is of the backward. Without a backward there is no update
/// either: ops of the optimizer phase then compute further results.
static bool findBackward(FunctionOpInterface func) {
  return func.getFunctionBody()
      .walk([](Operation *op) {
        return getPhase(op) == Phase::Backward ? WalkResult::interrupt()
                                               : WalkResult::advance();
      })
      .wasInterrupted();
}

DotRoles::DotRoles(FunctionOpInterface func) : backward(findBackward(func)) {
  findEmbeddings(func);
  findHeadsAndRouters(func);
  func.getFunctionBody().walk([&](Operation *op) {
    auto dot = dyn_cast<DotGeneralOp>(op);
    if (backward && isContraction(op) && isOptimizer(op)) {
      roles[op] = DotRole::Optimizer;
      return;
    }
    if (!dot) {
      if (isContraction(op))
        roles[op] = isa<stablehlo::ConvolutionOp>(op) ? DotRole::Convolution
                                                      : DotRole::Linear;
      return;
    }
    if (roles.contains(dot))
      return;
    std::optional<DotRole> role = findLayerRole(dot);
    if (!role || (isForward(dot) && role != DotRole::Router))
      role = isAttention(dot) ? DotRole::AttentionQK : DotRole::Linear;
    roles[dot] = *role;
  });
  findAttention(func);
}
