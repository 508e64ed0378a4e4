//===- AnnotateRoles.cpp - Annotate arguments of main with roles ----------===//
//
// Next values (NextValues.h), phase of use and the flow of gradients decide, in
// the order of `decide`. Where the flow says nothing, as of weights that the
// step does not train, the tree of which an argument is a leaf decides, or a
// name (Pipeline/ArgumentRoles.cpp).
//
//===----------------------------------------------------------------------===//

#include "ArgumentInfo.h"
#include "NextValues.h"
#include "Phases/Phases.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Import/ArgumentRoles.h"
#include "scalify/Import/Passes.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace scalify {
#define GEN_PASS_DEF_ANNOTATEROLESPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

// The search for a product ends here: a deep evaluation has thousands of
// values.
static constexpr size_t kMaxVisitedValues = 4096;

namespace {

class Roles {
public:
  explicit Roles(func::FuncOp main)
      : main(main), next(findNextValues(main)), trains(next.any()) {
    findReads();
    findActivations();
    findWeights();
    findUpdates(main.getBody().front());
  }

  Role decide(unsigned index);
  /// True if a convention of names may decide.
  bool goesByName(unsigned index);

private:
  static NextValues findNextValues(func::FuncOp main);
  void findActivations();
  bool isActivation(Value value) const;
  void findWeights();
  void findUpdates(Block &block);
  bool isUpdated(unsigned index);
  void findReads();
  bool isReadByModel(unsigned index) { return reads[index]; }
  bool isMaster(unsigned index);
  bool hasShapeOfParam(unsigned index);
  bool isBesideTrained(Value value, function_ref<bool(Value)> isTrained) const;
  bool isData(unsigned index);
  bool mayBeFrozen(unsigned index);
  bool isInTree(unsigned index, function_ref<bool(unsigned)> isSought);
  Role decideState(unsigned index);
  Role decideInput(unsigned index);

  RankedTensorType getType(unsigned index) {
    return cast<RankedTensorType>(main.getArgumentTypes()[index]);
  }
  bool isFloat(unsigned index) {
    return isa<FloatType>(getType(index).getElementType());
  }
  func::FuncOp main;
  NextValues next;
  /// True if any argument has a next value.
  bool trains;
  /// Of each argument, whether the model reads it: the forward, or a product of
  /// the backward.
  SmallVector<bool> reads;
  llvm::DenseSet<Value> activations, weights, vectors;
  /// Values that arithmetic computes of gradients. A choice by gradients, as of
  /// a loss scale, is none.
  llvm::DenseSet<Value> updates;
};

} // namespace

/// True if the step computes no gradient and no update.
static bool isForwardAlone(func::FuncOp main) {
  return !main.walk([](Operation *op) {
                bool isLater = isInPhase(op, Phase::Backward) ||
                               isInPhase(op, Phase::Optimizer);
                return isLater ? WalkResult::interrupt()
                               : WalkResult::advance();
              })
              .wasInterrupted();
}

NextValues Roles::findNextValues(func::FuncOp main) {
  return NextValues(
      main, [](Operation *op) { return isInPhase(op, Phase::Forward); },
      [](Operation *op) { return isInPhase(op, Phase::Backward); });
}

/// Returns the value of which this is a slice or a moved copy, also in a loop
/// that does not change it.
static Value getOrigin(Value value) {
  return lookThrough(value, Move::Layout | Move::Slice | Move::Invariant |
                                Move::Barrier | Move::Manual);
}

/// Finds the values that a product computes: activations, and no weights in
/// another form. Once for the whole step, which may use a value in many places.
void Roles::findActivations() {
  main.walk<WalkOrder::PreOrder>([&](Operation *op) {
    // Indices and predicates choose elements; they compute none.
    bool isFound =
        stablehlo::isContraction(op) || isa<stablehlo::WhileOp>(op) ||
        llvm::any_of(op->getOperands(), [&](Value operand) {
          return isa<FloatType>(getElementTypeOrSelf(operand.getType())) &&
                 isActivation(operand);
        });
    if (isFound)
      activations.insert(op->result_begin(), op->result_end());
  });
}

bool Roles::isActivation(Value value) const {
  // A loop's carry is computed.
  if (auto argument = dyn_cast<BlockArgument>(value))
    return !isa<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return activations.contains(value);
}

/// Finds weights of products, gathered tables, and vectors that are broadcast
/// over a batch. An argument is a weight on the right of any computed operand:
/// attention computes both sides. In an evaluation it is also one on the left
/// of an operand that a product computes; and of two arguments the right one is
/// the weight, unless it is a vector. A step that trains computes weights too,
/// as a merged LoRA does, and its own weights have new values: an argument on
/// the left, or beside another argument, is data unless it is trained. The
/// backward, where a layer's input is an operand too, is skipped.
void Roles::findWeights() {
  auto isTrained = [&](Value value) {
    return next.hasNextValue(cast<BlockArgument>(value).getArgNumber());
  };
  auto isArgument = [&](Value value) {
    return value.getParentBlock() == &main.getBody().front() &&
           isa<BlockArgument>(value);
  };
  bool trainsTensors =
      llvm::any_of(main.getArguments(), [&](BlockArgument argument) {
        unsigned index = argument.getArgNumber();
        return next.hasNextValue(index) && isFloat(index) &&
               getType(index).getRank() > 0;
      });
  llvm::DenseSet<Value> inputs;
  main.getBody().walk([&](Operation *op) {
    if (isInPhase(op, Phase::Backward))
      return;
    if (auto dot = dyn_cast<stablehlo::DotGeneralOp>(op)) {
      Value lhs = getOrigin(dot.getLhs()), rhs = getOrigin(dot.getRhs());
      bool isBatched =
          !dot.getDotDimensionNumbers().getRhsBatchingDimensions().empty();
      bool isVector =
          cast<RankedTensorType>(dot.getRhs().getType()).getRank() == 1;
      bool isLeft = isArgument(lhs), isRight = isArgument(rhs);
      if (trainsTensors && isLeft && !isTrained(lhs))
        inputs.insert(lhs);
      if (!isLeft && isRight && !isVector)
        weights.insert(rhs);
      else if (isLeft && !isRight && isActivation(rhs) &&
               (!trainsTensors || isTrained(lhs)))
        weights.insert(lhs);
      else if (isLeft && isRight && !isBatched) {
        Value weight =
            isVector || (isTrained(lhs) && !isTrained(rhs)) ? lhs : rhs;
        if (!trainsTensors || isTrained(weight))
          weights.insert(weight);
      }
    } else if (auto convolution = dyn_cast<stablehlo::ConvolutionOp>(op)) {
      weights.insert(getOrigin(convolution.getRhs()));
    } else if (isa<stablehlo::GatherOp>(op)) {
      weights.insert(getOrigin(op->getOperand(0)));
    } else if (isa<stablehlo::BroadcastInDimOp>(op)) {
      Value vector = op->getOperand(0);
      if (cast<RankedTensorType>(vector.getType()).getRank() == 1)
        vectors.insert(getOrigin(vector));
    }
  });
  for (Value input : inputs)
    weights.erase(input);
}

/// Finds the values that the backward computes, and those that the optimizer
/// computes of them.
void Roles::findUpdates(Block &block) {
  for (Operation &op : block) {
    auto isFound = [&](Value value) { return updates.contains(value); };
    if (isa<stablehlo::WhileOp, stablehlo::CaseOp, stablehlo::IfOp>(op)) {
      auto loop = dyn_cast<stablehlo::WhileOp>(op);
      if (loop)
        for (auto [argument, operand] :
             llvm::zip(loop.getBody().getArguments(), op.getOperands()))
          if (isFound(operand))
            updates.insert(argument);
      for (Region &region : op.getRegions()) {
        if (loop && &region == &loop.getCond())
          continue;
        findUpdates(region.front());
        for (auto [result, value] :
             llvm::zip(op.getResults(),
                       region.front().getTerminator()->getOperands()))
          if (isFound(value))
            updates.insert(result);
      }
      continue;
    }
    // The choice of a select is a boolean, which no gradient is.
    bool isUpdate = isInPhase(&op, Phase::Backward) ||
                    (!isInPhase(&op, Phase::Forward) &&
                     llvm::any_of(op.getOperands(), isFound));
    for (Value result : op.getResults())
      if (isUpdate && isa<FloatType>(getElementTypeOrSelf(result.getType())))
        updates.insert(result);
  }
}

/// True if the argument's new value is computed of gradients.
bool Roles::isUpdated(unsigned index) {
  std::optional<unsigned> result = next.getResult(index);
  return result && updates.contains(getResults(main)[*result]);
}

/// Follows carries into loop bodies: a loop over micro-batches or steps
/// contains the forward, whatever its own phase is.
static bool isReadInForward(Value value, Block &block) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto loop = dyn_cast<stablehlo::WhileOp>(user);
        loop && isReadInForward(
                    loop.getBody().getArgument(use.getOperandNumber()), block))
      return true;
    Operation *around = value.getParentBlock() == &block
                            ? block.findAncestorOpInBlock(*user)
                            : user;
    return isInPhase(around, Phase::Forward);
  });
}

/// Finds the arguments that the model reads: in the forward, or by a product of
/// the backward, as the last layer's weight if the step returns no loss. In
/// arithmetic of one phase, as an update that is given gradients, only products
/// are known to be a model's.
void Roles::findReads() {
  bool isOnePhase = isForwardAlone(main);
  for (BlockArgument argument : main.getArguments())
    reads.push_back(
        (!isOnePhase && isReadInForward(argument, main.getBody().front())) ||
        llvm::any_of(findProducts(argument), [&](OpOperand *use) {
          return isOnePhase || isInPhase(use->getOwner(), Phase::Backward);
        }));
}

/// True if the conversion of this argument's new value is the next value of
/// another one.
bool Roles::isMaster(unsigned index) {
  std::optional<unsigned> own = next.getResult(index);
  if (!own || isReadByModel(index))
    return false;
  Value updated = getResults(main)[*own];
  for (auto [result, value] : llvm::enumerate(getResults(main))) {
    auto convert = value.getDefiningOp<stablehlo::ConvertOp>();
    if (next.isNextValue(result) && convert && convert.getOperand() == updated)
      return true;
  }
  return false;
}

/// True if `shape` is that of a parameter, or that without some dimensions: a
/// moment of rows or columns.
static bool isSubsequence(ArrayRef<int64_t> shape, ArrayRef<int64_t> of) {
  for (int64_t size : of)
    if (!shape.empty() && shape.front() == size)
      shape = shape.drop_front();
  return shape.empty();
}

bool Roles::hasShapeOfParam(unsigned index) {
  for (unsigned other = 0; other < main.getNumArguments(); ++other) {
    if (other == index || !next.hasNextValue(other) || !isFloat(other) ||
        !isReadByModel(other))
      continue;
    ArrayRef<int64_t> own = getType(index).getShape();
    ArrayRef<int64_t> shape = getType(other).getShape();
    if (own == shape || (isUpdated(index) && isSubsequence(own, shape)))
      return true;
  }
  return false;
}

Role Roles::decideState(unsigned index) {
  if (!isFloat(index))
    return Role::State;
  if (isMaster(index))
    return Role::Master;
  bool isRead = isReadByModel(index);
  if (getType(index).getRank() == 0)
    return isRead && isUpdated(index) ? Role::Param : Role::State;
  if (isRead)
    return Role::Param;
  return hasShapeOfParam(index) ? Role::Moment : Role::State;
}

Role Roles::decideInput(unsigned index) {
  Type element = getType(index).getElementType();
  if (element.isUnsignedInteger())
    return Role::Input;
  if (getType(index).getRank() == 0)
    return Role::Scalar;
  if (!isFloat(index))
    return Role::Batch;
  // Beside state a vector that is broadcast may be one of examples.
  Value argument = main.getArgument(index);
  bool isWeight =
      weights.contains(argument) || (!trains && vectors.contains(argument));
  auto isTrained = [&](unsigned other) {
    return next.hasNextValue(other) && isReadByModel(other);
  };
  if (isWeight || (mayBeFrozen(index) && isInTree(index, isTrained)))
    return Role::Param;
  return Role::Batch;
}

/// True if arithmetic on arguments and constants leads from the value to a
/// product whose other operand is a trained argument.
bool Roles::isBesideTrained(Value value,
                            function_ref<bool(Value)> isTrained) const {
  llvm::SetVector<Value> found;
  found.insert(value);
  for (size_t i = 0; i < found.size() && i < kMaxVisitedValues; ++i)
    for (OpOperand &use : found[i].getUses()) {
      Operation *user = use.getOwner();
      if (!isInPhase(user, Phase::Forward) || user->getNumRegions() > 0)
        continue;
      if (stablehlo::isContraction(user)) {
        if (use.getOperandNumber() < 2 &&
            isTrained(getOrigin(user->getOperand(1 - use.getOperandNumber()))))
          return true;
        continue;
      }
      // A vector that is broadcast may be a weight too.
      bool isOfArguments =
          !isa<stablehlo::BroadcastInDimOp>(user) &&
          llvm::none_of(user->getOpOperands(), [&](OpOperand &other) {
            return &other != &use && isActivation(other.get());
          });
      if (isOfArguments)
        found.insert(user->result_begin(), user->result_end());
    }
  return false;
}

/// True if the argument is no weight, since it stands beside trained ones.
bool Roles::isData(unsigned index) {
  auto isTrained = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argument.getOwner() == &main.getBody().front() &&
           next.hasNextValue(argument.getArgNumber());
  };
  return isFloat(index) && !next.hasNextValue(index) &&
         isBesideTrained(main.getArgument(index), isTrained);
}

/// True if elementwise ops of the forward lead from the value to a product.
static bool feedsProduct(Value value) {
  llvm::SetVector<Value> found;
  found.insert(value);
  for (size_t i = 0; i < found.size() && i < kMaxVisitedValues; ++i)
    for (Operation *user : found[i].getUsers()) {
      if (!isInPhase(user, Phase::Forward))
        continue;
      if (stablehlo::isContraction(user) || isa<stablehlo::GatherOp>(user))
        return true;
      if (user->hasTrait<OpTrait::Elementwise>() ||
          isa<stablehlo::ReshapeOp, stablehlo::TransposeOp,
              stablehlo::BroadcastInDimOp>(user))
        found.insert(user->result_begin(), user->result_end());
    }
  return false;
}

/// True if the argument may be a weight that the step does not train.
bool Roles::mayBeFrozen(unsigned index) {
  Value argument = main.getArgument(index);
  return isFloat(index) && !next.hasNextValue(index) && !isData(index) &&
         (vectors.contains(argument) || feedsProduct(argument));
}

bool Roles::isInTree(unsigned index, function_ref<bool(unsigned)> isSought) {
  StringRef tree = getTreeOf(main, index);
  for (unsigned other = 0; other < main.getNumArguments(); ++other)
    if (getTreeOf(main, other) == tree && isSought(other))
      return true;
  return false;
}

/// Names of state choose among its kinds. In a step that trains, they choose
/// among weights that it does not train, unless data lie in the same tree.
bool Roles::goesByName(unsigned index) {
  if (!trains || next.hasNextValue(index))
    return true;
  return mayBeFrozen(index) &&
         !isInTree(index, [&](unsigned other) { return isData(other); });
}

Role Roles::decide(unsigned index) {
  if (isFloat(index) && isWrittenInSlices(main, index))
    return Role::State;
  return next.hasNextValue(index) ? decideState(index) : decideInput(index);
}

SmallVector<bool> scalify::findArgumentsByName(func::FuncOp main) {
  Roles roles(main);
  SmallVector<bool> byName;
  for (unsigned index = 0; index < main.getNumArguments(); ++index)
    byName.push_back(roles.goesByName(index));
  return byName;
}

namespace {

struct AnnotateRoles : scalify::impl::AnnotateRolesPassBase<AnnotateRoles> {
  void runOnOperation() override {
    FailureOr<func::FuncOp> main = getMain(getOperation());
    if (failed(main))
      return signalPassFailure();
    for (Type type : main->getArgumentTypes())
      if (!isa<RankedTensorType>(type)) {
        main->emitOpError("has an argument of type ")
            << type << ", which is no ranked tensor";
        return signalPassFailure();
      }
    Roles roles(*main);
    for (unsigned index = 0; index < main->getNumArguments(); ++index)
      if (!main->getArgAttr(index, kRoleAttr))
        main->setArgAttr(index, kRoleAttr,
                         RoleAttr::get(&getContext(), roles.decide(index)));
  }
};

} // namespace
