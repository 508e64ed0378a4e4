//===- AnnotateRoles.cpp - Annotate arguments of main with roles ----------===//
//
// Names decide first: optax calls its moments `.mu`, `.nu`, `.trace` and its
// counters `.count`, and JAX writes those paths in locations and result_info.
// Otherwise donation, type and phase of use decide, in the order of `decide`.
//===----------------------------------------------------------------------===//

#include "ArgumentInfo.h"
#include "Phases/Phases.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Import/Passes.h"

#include "llvm/ADT/StringSet.h"

namespace scalify {
#define GEN_PASS_DEF_ANNOTATEROLESPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

/// Splits a path: "opt_state[1][0].mu['w']" gives opt_state 1 0 mu w.
static SmallVector<StringRef> splitPath(StringRef name) {
  SmallVector<StringRef> parts;
  while (!name.empty()) {
    size_t end = name.find_first_of(".[]'\"");
    if (end != 0)
      parts.push_back(name.substr(0, end));
    name = end == StringRef::npos ? StringRef() : name.substr(end + 1);
  }
  return parts;
}

/// Returns the role that the fields of a path imply, if any. This includes keys
/// of the user's own dictionaries, so only unambiguous words count.
static std::optional<Role> getRoleFromPath(StringRef name) {
  static const llvm::StringSet<> moments = {
      "mu",  "nu",  "trace",    "sum_of_squares", "v_row",   "v_col",
      "e_g", "e_x", "momentum", "moments",        "exp_avg", "exp_avg_sq"};
  SmallVector<StringRef> parts = splitPath(name);
  for (StringRef part : llvm::reverse(parts)) {
    if (moments.contains(part))
      return Role::Moment;
    if (part == "count" || part == "mini_step" || part == "gradient_step")
      return Role::State;
    if (part == "master" || part == "master_params")
      return Role::Master;
  }
  return {};
}

/// True if the first word of a path denotes the model.
static bool isModelPath(StringRef name) {
  SmallVector<StringRef> parts = splitPath(name);
  static const llvm::StringSet<> roots = {"params", "param", "weights", "model",
                                          "variables"};
  return !parts.empty() && roots.contains(parts.front());
}

namespace {

class Roles {
public:
  explicit Roles(func::FuncOp main)
      : main(main), state(findStateArguments(main)) {
    for (unsigned index = 0; index < main.getNumArguments(); ++index)
      anyDonated |= getAliasedResult(main, index).has_value();
    findWeights();
    if (!anyDonated)
      findBatchArguments();
  }

  Role decide(unsigned index);

private:
  void findWeights();
  bool isReadByForward(unsigned index);
  bool isMaster(unsigned index);
  bool hasGradient(unsigned index);
  void findBatchArguments();
  bool hasParamOfShape(unsigned index);
  Role decideState(unsigned index);
  Role decideInput(unsigned index);

  RankedTensorType getType(unsigned index) {
    return cast<RankedTensorType>(main.getArgumentTypes()[index]);
  }
  bool isFloat(unsigned index) {
    return isa<FloatType>(getType(index).getElementType());
  }
  StringRef getName(unsigned index) {
    auto name = main.getArgAttrOfType<StringAttr>(index, kNameAttr);
    return name ? name.getValue() : StringRef();
  }

  func::FuncOp main;
  SmallVector<bool> state;
  bool anyDonated = false;
  // Used if nothing is donated.
  llvm::DenseSet<Value> weights, data;
};

} // namespace

/// Finds right-hand sides of dots, gathered tables, and vectors that are
/// broadcast over a batch. The backward, where a layer's input is a right-hand
/// side too, is skipped. The forward may also have the input on the right: if
/// no result can be its gradient but one can be that of the left-hand side, the
/// left-hand side is the weight.
void Roles::findWeights() {
  auto isArgument = [&](Value value, bool isTrained) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argument.getOwner() == &main.getBody().front() &&
           state[argument.getArgNumber()] == isTrained;
  };
  main.getBody().walk([&](Operation *op) {
    if (isInPhase(op, Phase::Backward))
      return;
    if (auto dot = dyn_cast<stablehlo::DotGeneralOp>(op)) {
      Value lhs = lookThrough(dot.getLhs(), Move::Layout),
            rhs = lookThrough(dot.getRhs(), Move::Layout);
      if (dot.getDotDimensionNumbers().getRhsBatchingDimensions().empty())
        weights.insert(isArgument(lhs, true) && isArgument(rhs, false) ? lhs
                                                                       : rhs);
    } else if (isa<stablehlo::BroadcastInDimOp, stablehlo::GatherOp>(op)) {
      Value operand = lookThrough(op->getOperand(0), Move::Layout);
      auto type = cast<RankedTensorType>(operand.getType());
      if (isa<stablehlo::GatherOp>(op) || type.getRank() == 1)
        weights.insert(operand);
    }
  });
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

bool Roles::isReadByForward(unsigned index) {
  return isReadInForward(main.getArgument(index), main.getBody().front());
}

/// Returns the uses of a value by dots, also through moves and conversions.
static SmallVector<OpOperand *> findProducts(Value value) {
  SmallVector<OpOperand *> products;
  SmallVector<Value> worklist{value};
  while (!worklist.empty())
    for (OpOperand &use : worklist.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      if (stablehlo::isContraction(user))
        products.push_back(&use);
      else if (isa<stablehlo::ConvertOp, stablehlo::ReshapeOp,
                   stablehlo::TransposeOp>(user))
        worklist.push_back(user->getResult(0));
    }
  return products;
}

static int64_t countElements(Value value) {
  return cast<ShapedType>(value.getType()).getNumElements();
}

/// True if a dot of the backward computes the argument's gradient: it has the
/// argument's size, and shares the other operand of a forward dot that reads
/// the argument.
bool Roles::hasGradient(unsigned index) {
  Value argument = main.getArgument(index);
  return llvm::any_of(findProducts(argument), [&](OpOperand *use) {
    Operation *layer = use->getOwner();
    if (use->getOperandNumber() > 1 || !isInPhase(layer, Phase::Forward))
      return false;
    Value other = lookThrough(layer->getOperand(1 - use->getOperandNumber()),
                              Move::Layout);
    return llvm::any_of(findProducts(other), [&](OpOperand *read) {
      Operation *product = read->getOwner();
      return isInPhase(product, Phase::Backward) &&
             countElements(product->getResult(0)) == countElements(argument) &&
             llvm::none_of(product->getOperands(), [&](Value operand) {
               return lookThrough(operand, Move::Layout) == argument;
             });
    });
  });
}

/// Among arguments of one type, only as many as there are results of that type
/// can have a gradient or a new value among the results. If that many have a
/// gradient, the others are data.
void Roles::findBatchArguments() {
  SmallVector<Value> others;
  llvm::DenseMap<Type, int64_t> numGradients;
  for (unsigned index = 0; index < main.getNumArguments(); ++index)
    if (hasGradient(index))
      ++numGradients[main.getArgumentTypes()[index]];
    else if (state[index] && isFloat(index) && getType(index).getRank() > 0)
      others.push_back(main.getArgument(index));
  for (Value argument : others) {
    int64_t found = numGradients.lookup(argument.getType());
    if (found > 0 &&
        found >= llvm::count(main.getResultTypes(), argument.getType()))
      data.insert(argument);
  }
}

/// True if a donated result is the conversion of this argument's new value.
bool Roles::isMaster(unsigned index) {
  std::optional<unsigned> own = getAliasedResult(main, index);
  if (!own || isReadByForward(index))
    return false;
  Value updated = getResults(main)[*own];
  for (auto [result, owner] : llvm::enumerate(getAliasedArguments(main))) {
    auto convert =
        getResults(main)[result].getDefiningOp<stablehlo::ConvertOp>();
    if (owner >= 0 && convert && convert.getOperand() == updated)
      return true;
  }
  return false;
}

bool Roles::hasParamOfShape(unsigned index) {
  for (unsigned other = 0; other < main.getNumArguments(); ++other)
    if (other != index && state[other] && isFloat(other) &&
        getType(other).getShape() == getType(index).getShape() &&
        isReadByForward(other))
      return true;
  return false;
}

Role Roles::decideState(unsigned index) {
  if (!isFloat(index))
    return Role::State;
  if (isMaster(index))
    return Role::Master;
  if (getType(index).getRank() == 0)
    return isModelPath(getName(index)) ? Role::Param : Role::State;
  if (isReadByForward(index))
    return Role::Param;
  return hasParamOfShape(index) ? Role::Moment : Role::State;
}

Role Roles::decideInput(unsigned index) {
  Type element = getType(index).getElementType();
  if (element.isUnsignedInteger())
    return Role::Input;
  if (getType(index).getRank() == 0)
    return isModelPath(getName(index)) ? Role::Param : Role::Scalar;
  if (!isFloat(index))
    return Role::Batch;
  bool isWeight = !anyDonated && weights.contains(main.getArgument(index));
  return isModelPath(getName(index)) || isWeight ? Role::Param : Role::Batch;
}

Role Roles::decide(unsigned index) {
  if (std::optional<Role> role = getRoleFromPath(getName(index)))
    return *role;
  if (isFloat(index) && isWrittenInSlices(main, index))
    return Role::State;
  if (data.contains(main.getArgument(index)))
    return Role::Batch;
  if (anyDonated)
    return state[index] ? decideState(index) : decideInput(index);
  // Gradients and new state have the types of their arguments. Data of the type
  // of a result are told apart by use.
  if (state[index] && getType(index).getRank() > 0 && isFloat(index)) {
    if (!isReadByForward(index))
      return decideState(index);
    return Role::Param;
  }
  // A counter; batches have more than one element.
  if (state[index] && getType(index).getRank() == 0 && !isFloat(index))
    return Role::State;
  return decideInput(index);
}

namespace {

class AnnotateRoles
    : public scalify::impl::AnnotateRolesPassBase<AnnotateRoles> {
public:
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
